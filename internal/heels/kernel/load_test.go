// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
)

// The verifier takes every program.
func TestProgramsLoad(t *testing.T) {
	spec, err := LoadSpec()
	if err != nil {
		t.Fatal(err)
	}
	if !ListsMaps() {
		t.Log("this kernel lets no iterator run over a map: the agent does not load", kernelProgHeelsConnections)
		DropOtherIterators(spec, true)
	}
	for name := range spec.Programs {
		t.Run(name, func(t *testing.T) {
			one := spec.Copy()
			for other := range one.Programs {
				if other != name {
					delete(one.Programs, other)
				}
			}
			coll, err := ebpf.NewCollection(one)
			var verifier *ebpf.VerifierError
			if errors.As(err, &verifier) {
				t.Fatalf("%-40v", verifier)
			}
			if err != nil {
				t.Fatal(err)
			}
			coll.Close()
		})
	}
}
