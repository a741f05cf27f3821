// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// A start that fails takes away what it has attached and pinned.
func TestStartThatFailsLeavesNothing(t *testing.T) {
	h := newRig(t).client
	c, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: [eth0, none0]\ncgroup: "+testCgroup+"\n"+clientText))
	if err != nil {
		t.Fatal(err)
	}
	root := heelstest.BPFFS(t)
	heelstest.Within(t, h.NS, func() error {
		_, err = Start(c, filepath.Join(root, "agent"), testCgroup)
		return nil
	})
	var field *settings.FieldError
	if !errors.As(err, &field) || !strings.Contains(err.Error(), "none0") {
		t.Errorf("start with an interface that is not there: %v", err)
	}
	if left, err := pins.Names(root); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
	if n := h.attached(); n > 0 {
		t.Errorf("it has left %d programs at the interface", n)
	}
}

// What is pinned can be opened by root alone.
func TestPinsAreRootsAlone(t *testing.T) {
	h := newRig(t).client
	h.agent(clientText)
	err := filepath.WalkDir(h.pin, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
