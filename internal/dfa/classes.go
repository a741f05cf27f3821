// SPDX-License-Identifier: Apache-2.0

package dfa

// classes divides the bytes into those that are alike. Classes are numbered by their first byte.
type classes struct {
	of    [256]uint8
	first []byte // of each class, ascending
}

// classify divides the bytes by key: bytes with equal keys are alike.
func classify[K comparable](key func(b byte) K) classes {
	var c classes
	numbers := map[K]uint8{}
	for b := range 256 {
		k := key(byte(b))
		number, known := numbers[k]
		if !known {
			number = uint8(len(c.first))
			numbers[k] = number
			c.first = append(c.first, byte(b))
		}
		c.of[b] = number
	}
	return c
}

// classes divides the bytes as the instructions of the NFA do. It is finer than it has to be, where the ends
// of spans fall between bytes that are alike otherwise.
func (n *nfa) classes() classes {
	var begins [257]int
	for _, i := range n.code {
		if i.op == opBytes {
			begins[i.span.Lo] = 1
			begins[int(i.span.Hi)+1] = 1
		}
	}
	type key struct {
		interval int
		kind     kind
	}
	interval := 0
	return classify(func(b byte) key {
		interval += begins[b]
		return key{interval, kindOf(b, n.looks)}
	})
}
