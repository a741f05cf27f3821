// SPDX-License-Identifier: Apache-2.0

package hashing

// Parameters of MT19937 (Matsumoto and Nishimura, 1998), which is C++'s std::mt19937.
const (
	twisterSize   = 624
	twisterOffset = 397
	twisterMatrix = 0x9908b0df
	twisterSeed   = 1812433253
	twisterUpper  = 1 << 31
)

// twister makes the random numbers by which Envoy shuffles hosts. A generator of Go's would shuffle them otherwise.
type twister struct {
	state [twisterSize]uint32
	at    int
}

func newTwister(seed uint32) *twister {
	t := &twister{at: twisterSize}
	t.state[0] = seed
	for i := uint32(1); i < twisterSize; i++ {
		last := t.state[i-1]
		t.state[i] = twisterSeed*(last^last>>30) + i
	}
	return t
}

func (t *twister) next() uint32 {
	if t.at == twisterSize {
		t.twist()
	}
	y := t.state[t.at]
	t.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (t *twister) twist() {
	for i := range t.state {
		y := t.state[i]&twisterUpper | t.state[(i+1)%twisterSize]&(twisterUpper-1)
		t.state[i] = t.state[(i+twisterOffset)%twisterSize] ^ y>>1
		if y&1 != 0 {
			t.state[i] ^= twisterMatrix
		}
	}
	t.at = 0
}

// below is a number from 0 up to, but without, n, each as likely as the others.
func (t *twister) below(n uint32) uint32 {
	for {
		if x := uint32(uint64(t.next()) / (1 << 32 / uint64(n))); x < n {
			return x
		}
	}
}
