// SPDX-License-Identifier: Apache-2.0

package match

// candidates are routes of several sources, in the order of the routes. No route comes from two.
type candidates struct{ sources []source }

// source is an ascending list.
type source struct {
	list []uint32
	// of, unless it is nil, has the positions for which the list stands.
	of []uint32
	// sure: their path matches.
	sure bool
}

func (c *candidates) add(list, of []uint32, sure bool) {
	if len(list) > 0 {
		c.sources = append(c.sources, source{list, of, sure})
	}
}

func (s *source) position() uint32 {
	if s.of != nil {
		return s.of[s.list[0]]
	}
	return s.list[0]
}

// next takes the first one that is left. The sources are few: one for each length of a prefix that
// begins the path, and one for each automaton.
func (c *candidates) next() (position uint32, sure, ok bool) {
	least := -1
	for i := range c.sources {
		s := &c.sources[i]
		if len(s.list) > 0 && (least < 0 || s.position() < position) {
			least, position = i, s.position()
		}
	}
	if least < 0 {
		return 0, false, false
	}
	s := &c.sources[least]
	s.list = s.list[1:]
	return position, s.sure, true
}

// unsure are those that are left of the source that is not sure; at most one is.
func (c *candidates) unsure() []uint32 {
	for _, s := range c.sources {
		if !s.sure {
			return s.list
		}
	}
	return nil
}
