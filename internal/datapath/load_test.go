// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
)

func TestEveryProgramPassesTheVerifier(t *testing.T) {
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := loadXlb()
	if err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		t.Fatalf("%+v", ve)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer coll.Close()
	for name, p := range coll.Programs {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, ok := info.VerifiedInstructions()
		t.Logf("%s: %d instructions verified (%v)", name, n, ok)
	}
}

// Programs are verified side by side: the one that is refused is named all the same, with what the verifier says of it.
func TestRefusedProgramIsNamed(t *testing.T) {
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := readSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name := range spec.Programs {
		if name != "xlb_whoami" && name != "xlb_connect4" && name != "xlb_sockops" {
			delete(spec.Programs, name)
		}
	}
	// It returns what it has not set.
	spec.Programs["xlb_whoami"].Instructions = asm.Instructions{asm.Return()}
	coll, err := newCollection(spec)
	if err == nil {
		coll.Close()
		t.Fatal("a program that the verifier refuses: got no error")
	}
	var refused *ebpf.VerifierError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "program xlb_whoami") || !strings.Contains(err.Error(), "R0 !read_ok") {
		t.Errorf("error: got %v, want the verifier's of xlb_whoami", err)
	}
}
