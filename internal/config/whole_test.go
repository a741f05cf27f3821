// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file that is all there is need not be assembled.
func TestWholeConfigurationIsTheAssembledOne(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range append(files, "testdata/base.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseBootstrap(file, data)
		if err != nil || b.Whole() == nil {
			continue
		}
		want, err := b.Assemble(Resources{})
		if err != nil {
			t.Fatal(err)
		}
		same := cmp.Options{cmp.Exporter(func(reflect.Type) bool { return true })}
		if diff := cmp.Diff(want, b.Whole(), same...); diff != "" {
			t.Errorf("%s: (-assembled, +whole)\n%s", file, diff)
		}
		compared++
	}
	if compared < 3 {
		t.Errorf("only %d files are all there is", compared)
	}
}
