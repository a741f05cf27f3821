// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestTreeKeepsTheImportRule(t *testing.T) {
	packages := readTree(t, "../..")
	if len(packages) == 0 {
		t.Fatal("found no Go file in this tree")
	}
	for _, p := range packages {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

// readTree reads the imports of every Go file below root, whatever its build
// constraints say, as one goPackage per file. It reads the files itself rather
// than ask the go command: so the test's cached result ends when one changes.
func readTree(t *testing.T, root string) []goPackage {
	t.Helper()
	var packages []goPackage
	for _, name := range sources(t, root) {
		p, err := readFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}

// sources are the Go files below root that are no tests.
func sources(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && isNoPackage(entry.Name()) {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// isNoPackage says whether the go command overlooks folders of this name.
func isNoPackage(folder string) bool {
	return folder == "testdata" || strings.HasPrefix(folder, ".") || strings.HasPrefix(folder, "_")
}

func readFile(root, name string) (goPackage, error) {
	folder, err := filepath.Rel(root, filepath.Dir(name))
	if err != nil {
		return goPackage{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return goPackage{}, err
	}
	p := goPackage{ImportPath: module + filepath.ToSlash(folder)}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return goPackage{}, err
		}
		p.Imports = append(p.Imports, imported)
	}
	return p, nil
}

func TestViolations(t *testing.T) {
	const ebpf, envoy = "github.com/cilium/ebpf/link", "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tests := []struct {
		name    string
		pkg     string
		imports string
		want    string // part of the only violation; "" for none
	}{
		{"standard library", "internal/model", "net/netip", ""},
		{"row of the table", "internal/config", module + "internal/model", ""},
		{"own sub-package", "internal/maps", module + "internal/maps/fake", ""},
		{"sub-package follows its parent", "internal/anchor/part", module + "internal/shares", ""},
		{"composition root", "internal/node", module + "internal/slowpath", ""},
		{"command", "cmd/xlb", module + "internal/datapath", ""},
		{"against the arrow", "internal/model", module + "internal/config", "may import of internal/"},
		{"sideways", "internal/pool", module + "internal/slowpath", "may import of internal/"},
		{"sub-package against the arrow", "internal/anchor/part", module + "internal/pool", "may import of internal/"},
		{"unknown package", "internal/newcomer", "net", "no row in layers"},
		{"unknown package without imports", "internal/newcomer", "", "no row in layers"},
		{"command from internal", "internal/node", module + "cmd/xlb", "internal packages only"},
		{"row of the configuration", "internal/config/routes", module + "internal/config/values", ""},
		{"configuration puts its parts together", "internal/config", module + "internal/config/clusters", ""},
		{"against the arrow in the configuration", "internal/config/values", module + "internal/config/routes", "may import of internal/config/"},
		{"sideways in the configuration", "internal/config/routes", module + "internal/config/clusters", "may import of internal/config/"},
		{"unknown package of the configuration", "internal/config/newcomer", "net", "no row in configLayers"},
		{"row of the slow path", "internal/slowpath/h1", module + "internal/slowpath/buffers", ""},
		{"slow path puts its parts together", "internal/slowpath", module + "internal/slowpath/h1", ""},
		{"part of the slow path follows its parent", "internal/slowpath/h1", module + "internal/head", ""},
		{"part of the slow path against the arrow", "internal/slowpath/h1", module + "internal/pool", "may import of internal/"},
		{"against the arrow in the slow path", "internal/slowpath/buffers", module + "internal/slowpath/h1", "may import of internal/slowpath/"},
		{"unknown package of the slow path", "internal/slowpath/newcomer", "net", "no row in slowpathLayers"},
		{"model is made of its parts", "internal/model", module + "internal/model/matcher", ""},
		{"model from elsewhere", "internal/compile", module + "internal/model/matcher", ""},
		{"row of the model", "internal/model/rewrite", module + "internal/model/matcher", ""},
		{"topology reads the model", "internal/model/topology", module + "internal/model", ""},
		{"sideways in the model", "internal/model/topology", module + "internal/model/rewrite", "may import of internal/model/"},
		{"part of the model against the arrow", "internal/model/matcher", module + "internal/config", "may import of internal/"},
		{"against the arrow in the model", "internal/model/matcher", module + "internal/model/rewrite", "may import of internal/model/"},
		{"unknown package of the model", "internal/model/newcomer", "net", "no row in modelLayers"},
		{"row of the compiler", "internal/compile/routes", module + "internal/compile/tables", ""},
		{"compiler puts its parts together", "internal/compile", module + "internal/compile/clusters", ""},
		{"against the arrow in the compiler", "internal/compile/tables", module + "internal/compile/routes", "may import of internal/compile/"},
		{"sideways in the compiler", "internal/compile/clusters", module + "internal/compile/tables", "may import of internal/compile/"},
		{"unknown package of the compiler", "internal/compile/newcomer", "net", "no row in compileLayers"},
		{"row of the reconciler", "internal/reconcile/routes", module + "internal/reconcile/indices", ""},
		{"reconciler orders its parts", "internal/reconcile", module + "internal/reconcile/routes", ""},
		{"against the arrow in the reconciler", "internal/reconcile/indices", module + "internal/reconcile/routes", "may import of internal/reconcile/"},
		{"sideways in the reconciler", "internal/reconcile/clusters", module + "internal/reconcile/routes", "may import of internal/reconcile/"},
		{"unknown package of the reconciler", "internal/reconcile/newcomer", "net", "no row in reconcileLayers"},
		{"benchmark's command", "bench", module + "bench/report", ""},
		{"row of the benchmark", "bench/report", module + "bench/plot", ""},
		{"against the arrow in the benchmark", "bench/plot", module + "bench/report", "may import of bench/"},
		{"benchmark from an example", "examples/app", module + "bench/lab", ""},
		{"unknown package of the benchmark", "bench/newcomer", "net", "no row in benchLayers"},
		{"ebpf in maps", "internal/maps", ebpf, ""},
		{"ebpf in the checks", "internal/check", ebpf, ""},
		{"ebpf in a test package", "test/e2e", ebpf, ""},
		{"ebpf in the slow path", "internal/slowpath", ebpf, "only maps, datapath, lpm, check, heels may"},
		{"ebpf in the composition root", "internal/node", ebpf, "only maps, datapath, lpm, check, heels may"},
		{"ebpf in a command", "cmd/xlb", ebpf, "only maps, datapath, lpm, check, heels may"},
		{"Envoy's types in config", "internal/config", envoy, ""},
		{"Envoy's types in compile", "internal/compile", envoy, "only config, xds may"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := goPackage{ImportPath: module + tt.pkg}
			if tt.imports != "" {
				p.Imports = []string{tt.imports}
			}
			got := strings.Join(violations(p), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("violations(%s imports %s) = %q, want %q", tt.pkg, tt.imports, got, tt.want)
			}
		})
	}
}

func TestRowsNameFoldersThatHaveRows(t *testing.T) {
	for _, rows := range []map[string][]string{layers, benchLayers} {
		for layer, allowed := range rows {
			for _, target := range allowed {
				if _, known := rows[target]; target != anything && !known {
					t.Errorf("row %q allows %q, which has no row", layer, target)
				}
			}
		}
	}
}
