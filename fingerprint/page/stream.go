package page

import "bytes"

// streams is the extractor's state for a page that a framework streams. The server
// first sends the page with placeholders. It sends the text that was not ready, in
// hidden elements, at the end. A script of the page moves each of these segments to
// its placeholder as soon as the segment arrives.
//
//	           placeholder                        segment
//	React      <template id="B:1f"> or "P:1f"     <div hidden id="S:1f">
//	Solid      <template id="pl-0-1">             <template id="0-1">
type streams struct {
	solid    bool             // Solid streams the page
	searched bool             // solid is known
	places   map[string]int32 // by the number of the segment: the node of its placeholder
}

// isStreamed reports whether the element that begins with the current tag is a segment.
func (e *extractor) isStreamed(s *scanner) bool {
	id := s.attributes.id
	if id == nil {
		return false
	}
	if s.tag.kind != templateKind {
		number, found := reactNumber(id, "S")
		return found && s.attributes.hidden && len(number) > 0
	}
	if !e.searched {
		e.solid, e.searched = bytes.Contains(s.doc, []byte("$df(\"")), true
	}
	return e.solid && !bytes.HasPrefix(id, []byte("pl-"))
}

// reactNumber returns the number in an id such as "S:1f", which may have a prefix.
func reactNumber(id []byte, kind string) (number []byte, found bool) {
	i := bytes.LastIndexByte(id, ':')
	if i < 0 || !bytes.HasSuffix(id[:i], []byte(kind)) {
		return nil, false
	}
	for _, c := range id[i+1:] {
		if digitOf(c) > 15 {
			return nil, false
		}
	}
	return id[i+1:], true
}

// maxPlaces bounds the memory that placeholders cost.
const maxPlaces = 1000

// addPlace records the node of a placeholder, so that the segment is a child of this node in the
// outline. The order of the text does not change.
func (e *extractor) addPlace(id []byte) {
	number, found := bytes.CutPrefix(id, []byte("pl-"))
	for _, kind := range []string{"B", "P"} {
		if !found {
			number, found = reactNumber(id, kind)
		}
	}
	if !found || len(e.places) == maxPlaces {
		return
	}
	if e.places == nil {
		e.places = map[string]int32{}
	}
	e.places[string(number)] = e.node
	e.outline.nodes[e.node].held = true
}

// placeOf returns the node of the placeholder of a segment, or around if it has none.
func (e *extractor) placeOf(id []byte, around int32) int32 {
	if number, found := reactNumber(id, "S"); found {
		id = number
	}
	if place, found := e.places[string(id)]; found {
		return place
	}
	return around
}
