package main

import (
	"fmt"
	"strings"
)

// mutant is a bug to plant, and the test that notices it.
type mutant struct {
	binary
	run           string // which of its tests
	number        int    // from 1 on
	name          string
	in            string   // the folder of the package
	before, after []string // lines without their indentation
	path          string   // of the binary
	rapid         bool     // it has the flags of package rapid
}

// parse reads mutants. Each is
//
//	mutant its name
//	in the folder of the package; the bug has to be within one function
//	test the folder of the test, its -run expression, perhaps: race, ci
//	 a line that stays, for context
//	-a line that goes
//	+a line that comes
//
// Indentation behind the first character does not count. Empty lines and # stand between
// mutants.
func parse(text string) (mutants []*mutant, err error) {
	var m *mutant
	names := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		content := ""
		if line != "" {
			content = strings.TrimSpace(line[1:])
		}
		switch {
		case word == "mutant" && !names[rest]:
			m = &mutant{name: rest, number: len(mutants) + 1}
			names[rest] = true
			mutants = append(mutants, m)
		case line == "" || line[0] == '#':
		case m == nil:
			return nil, fmt.Errorf("line %d: before the first mutant: %q", i+1, line)
		case word == "in":
			m.in = rest
		case word == "test":
			err = m.parseTest(strings.Fields(rest))
		case line[0] == ' ':
			m.before, m.after = append(m.before, content), append(m.after, content)
		case line[0] == '-':
			m.before = append(m.before, content)
		case line[0] == '+':
			m.after = append(m.after, content)
		default:
			err = fmt.Errorf("no mutant has such a line, or two have this name: %q", line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for _, m := range mutants {
		if m.in == "" || m.folder == "" || len(m.before) == 0 {
			return nil, fmt.Errorf("%s: it lacks its folder, its test or its text", m.name)
		}
	}
	return mutants, nil
}

func (m *mutant) parseTest(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("a folder and a -run expression are needed, not %q", words)
	}
	m.folder, m.run = words[0], words[1]
	for _, word := range words[2:] {
		switch word {
		case "race":
			m.race = true
		case "ci":
			m.ci = true
		default:
			return fmt.Errorf("%q is neither race nor ci", word)
		}
	}
	return nil
}
