// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
)

// The end does not wait for work that goes on for good, and begins none.
func TestWorkIsLeftAtTheEnd(t *testing.T) {
	ending, began, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	defer close(goOn)
	if n, ok := unlessEnded(ending, func() int { return 7 }); n != 7 || !ok {
		t.Errorf("got %d, %t, want what work returns", n, ok)
	}
	go func() {
		<-began
		close(ending)
	}()
	if _, ok := unlessEnded(ending, func() int { close(began); <-goOn; return 7 }); ok {
		t.Error("work that was not done has a result")
	}
	if _, ok := unlessEnded(ending, func() int { t.Error("work was begun behind the end"); return 7 }); ok {
		t.Error("work behind the end has a result")
	}
}

// A configuration that comes when the daemon ends is neither compiled nor put in force. The node has no compiler, nor a kernel.
func TestNothingIsPutInForceAtTheEnd(t *testing.T) {
	ending := make(chan struct{})
	close(ending)
	n := &Node{ending: ending}
	n.secrets, n.inners, n.doors = newSecrets(n), newInners(n), newDoors(n)
	if err := n.install(&model.Config{}); !errors.Is(err, errEnding) {
		t.Errorf("got %v, want that the daemon ends", err)
	}
}

// Memory is given back behind a large file, and behind a small one that replaces it, since the large one's is needless only then.
func TestMemoryIsGivenBackBehindLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xlb.yaml")
	given := 0
	n := &Node{o: Options{ConfigPath: path}, freeMemory: func() { given++ }}
	for i, c := range []struct{ size, want int }{{10, 0}, {largeFile, 1}, {10, 2}, {10, 2}} {
		if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
			t.Fatal(err)
		}
		if n.giveBack(); given != c.want {
			t.Errorf("file %d: given back %d times, want %d", i, given, c.want)
		}
	}
}

// A bootstrap holds its configuration, routes and all, which is replaced.
func TestNodeKeepsNoBootstrap(t *testing.T) {
	for f := range reflect.TypeFor[Node]().Fields() {
		if f.Type == reflect.TypeFor[*config.Bootstrap]() {
			t.Errorf("field %s keeps what was in force at the start; take what is needed of it", f.Name)
		}
	}
}
