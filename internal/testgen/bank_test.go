package testgen

import (
	"strings"
	"testing"
)

func TestSentence(t *testing.T) {
	b := &bank{slots: map[string][]string{"habit": {"upright"}, "pot": {"a one litre pot"}, "colour": {"red", "blue"}}}
	for _, c := range []struct{ pattern, want string }{
		{"it is a {habit} plant", "It is an upright plant"},
		{"{pot} will do", "A one litre pot will do"},
		{"{n:7-7} days from the {nth:22-22}", "7 days from the 22nd"},
	} {
		if got := b.filler(newRNG(1, t.Name()), nil).sentence(c.pattern); got != c.want {
			t.Errorf("sentence(%q) = %q, want %q", c.pattern, got, c.want)
		}
	}
	got := b.filler(newRNG(1, t.Name()), nil).sentence("{colour} {colour}")
	if got = strings.ToLower(got); got != "red blue" && got != "blue red" {
		t.Errorf("a slot of two words gave %q: a word returned before the other was used", got)
	}
}

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 22: "22nd", 30: "30th"} {
		if got := ordinal(n); got != want {
			t.Errorf("ordinal(%d) = %s, want %s", n, got, want)
		}
	}
}

// A gap without a slot would otherwise end up as braces on a page.
func TestBanksAreComplete(t *testing.T) {
	for _, name := range []string{"nursery", "almanac"} {
		b, err := readBank(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.sections) == 0 || len(b.slots) == 0 {
			t.Errorf("bank %s: %d sections, %d slots", name, len(b.sections), len(b.slots))
		}
	}
	broken := &bank{sections: map[string][]string{"intro": {"a {hole}"}}}
	if err := broken.check("broken"); err == nil {
		t.Error("a gap without a slot was not found")
	}
}
