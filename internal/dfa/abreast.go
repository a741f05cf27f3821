// SPDX-License-Identifier: Apache-2.0

package dfa

// Abreast is how many sets WalkAbreast walks. A step waits for the one before it, of the same set; a processor that waits for four sets
// at once takes hardly longer than for one.
const Abreast = 4

// WalkAbreast has the states of some sets, at most [Abreast], be those behind a part of the input, as [Set.Walk] does of one.
func WalkAbreast(sets []*Set, states []uint16, part string) {
	if len(sets) == 1 {
		states[0] = sets[0].Walk(states[0], part)
		return
	}
	var all [Abreast]*Set
	var at [Abreast]uint16
	for i := range all {
		all[i] = empty
	}
	copy(all[:], sets)
	copy(at[:], states)
	// Whoever is dead is walked on, for some bytes.
	const look = 256
	for part != "" && at != [Abreast]uint16{} {
		n := min(len(part), look)
		at = walkFour(all, at, part[:n])
		part = part[n:]
	}
	copy(states, at[:])
}

// empty takes a place where there are fewer sets.
var empty = nothing()

func walkFour(sets [Abreast]*Set, at [Abreast]uint16, part string) [Abreast]uint16 {
	a, b, c, d := sets[0], sets[1], sets[2], sets[3]
	nextA, nextB, nextC, nextD := a.Next, b.Next, c.Next, d.Next
	countA, countB, countC, countD := a.ClassCount, b.ClassCount, c.ClassCount, d.ClassCount
	inA, inB, inC, inD := int(at[0]), int(at[1]), int(at[2]), int(at[3])
	for i := range len(part) {
		x := part[i]
		inA = int(nextA[inA*countA+int(a.Classes[x])])
		inB = int(nextB[inB*countB+int(b.Classes[x])])
		inC = int(nextC[inC*countC+int(c.Classes[x])])
		inD = int(nextD[inD*countD+int(d.Classes[x])])
	}
	return [Abreast]uint16{uint16(inA), uint16(inB), uint16(inC), uint16(inD)}
}
