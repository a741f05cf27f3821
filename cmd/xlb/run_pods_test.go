// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/node"
)

func TestChoiceOfPodsAndRuntime(t *testing.T) {
	type chosen struct {
		socket             string
		optional, labelled bool
	}
	const alone = "serves its own alone"
	tests := []struct {
		name, nri, pods string
		others          bool
		want            chosen
		refused         string
	}{
		{"the usual", "auto", "all", true, chosen{nriSocket, true, false}, ""},
		{"off", "off", "all", true, chosen{}, ""},
		{"a socket", "/run/a.sock", "all", true, chosen{"/run/a.sock", false, false}, ""},
		{"the daemon's namespace alone", "auto", "all", false, chosen{}, ""},
		// Without a runtime no pod would be balanced, which is worth a line.
		{"labels", "auto", "labelled", true, chosen{nriSocket, false, true}, ""},
		{"labels of a socket", "/run/a.sock", "labelled", true, chosen{"/run/a.sock", false, true}, ""},
		{"relative", "a.sock", "all", true, chosen{}, `--nri "a.sock": use auto, off, or the absolute path`},
		{"empty", "", "all", true, chosen{}, `--nri "": use auto, off, or the absolute path`},
		{"a socket for the daemon's namespace alone", "/run/a.sock", "all", false, chosen{}, alone},
		{"labels in the daemon's namespace alone", "auto", "labelled", false, chosen{}, alone},
		{"labels without a runtime", "off", "labelled", true, chosen{}, "leave out --nri=off"},
		{"others", "auto", "some", true, chosen{}, `--pods "some": use all or labelled`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := node.Options{OtherNamespaces: tt.others}
			err := (&runFlags{nri: tt.nri, pods: tt.pods}).choosePods(&o)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %v, want %q", err, tt.refused)
				}
				return
			}
			if got := (chosen{o.NRI, o.OptionalNRI, o.LabelledPods}); err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}
