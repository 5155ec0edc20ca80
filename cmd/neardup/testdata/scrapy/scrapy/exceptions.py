class DropItem(Exception): pass
