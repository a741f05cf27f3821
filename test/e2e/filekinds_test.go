// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// kindsOfFiles are what may lie where a file of resources is expected, and has no resources.
var kindsOfFiles = []struct {
	name string
	make func(path string) error
}{
	{"nothing", func(string) error { return nil }},
	{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }},
	{"a link in a circle", func(path string) error { return os.Symlink(filepath.Base(path), path) }},
	{"a link to nothing", func(path string) error { return os.Symlink("none", path) }},
	{"a device without an end", func(path string) error { return os.Symlink("/dev/zero", path) }},
	{"a device without content", func(path string) error { return os.Symlink("/dev/null", path) }},
	{"a file of procfs", func(path string) error { return os.Symlink("/proc/self/status", path) }},
	{"messages of the kernel", func(path string) error { return os.Symlink("/proc/kmsg", path) }},
	{"a file of sysfs", func(path string) error { return os.Symlink("/sys/kernel/mm/transparent_hugepage/enabled", path) }},
	{"a pipe without a writer", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
	{"ten gigabytes of nothing", func(path string) error {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(path, 10<<30)
	}},
	{"a million lines", func(path string) error {
		return os.WriteFile(path, []byte(strings.Repeat("# one of them\n", 1e6)), 0o600)
	}},
	{"zeros", func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) }},
}

// replaceBy puts something else into the place of a file, which is not there for a moment.
func (f *inFiles) replaceBy(path string, something func(path string) error) {
	f.Helper()
	if err := os.RemoveAll(path); err != nil {
		f.Fatal(err)
	}
	if err := something(path); err != nil {
		f.Fatal(err)
	}
}

// lie has something else lie where all files were, until the balancer has refused it.
func (f *inFiles) lie(something func(path string) error) {
	f.Helper()
	said, before := len(f.balancer.Stderr()), map[string][]byte{}
	for _, file := range []string{clustersFile, endpointsFile, listenersFile, routesFile} {
		path := f.path(file)
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		before[path] = text
		f.replaceBy(path, something)
	}
	for path := range before {
		harness.Eventually(f, await.Patience, path+" is refused", func() bool {
			for line := range strings.Lines(f.balancer.Stderr()[said:]) {
				if strings.Contains(line, "file of resources refused") && strings.Contains(line, path) {
					return true
				}
			}
			return false
		})
	}
	awaitRequests(f.T, f.load, 5)
	for path, text := range before {
		f.replaceBy(path, func(path string) error { return os.WriteFile(path, text, 0o600) })
	}
}

// Whatever lies in the place of a file changes nothing, and a file that is put there afterwards is taken.
func TestWhateverLiesInThePlaceOfAFileChangesNothing(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.OnlyXLB(t, "Envoy reads devices and pipes until it is out of memory")
	mode, place := harness.Modes(t)[0], harness.SameHost(t)
	service := harness.Service()
	f := newInFiles(t, place, service)
	f.balancer = harness.Start(t, mode, harness.Config{Fields: f.fields()}, place)
	f.load = place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 2})
	awaitRequests(t, f.load, 50)
	descriptors := f.balancer.Descriptors(t)
	for i, kind := range kindsOfFiles {
		t.Logf("%s", kind.name)
		f.lie(kind.make)
		next := f.servers[(i+1)%2]
		f.move(f.path(endpointsFile), resourcesOf(t, assignmentType, assignmentOf("shop", next)))
		f.awaitEndpoint("shop", next)
	}
	if now := f.balancer.Descriptors(t); now > descriptors+len(kindsOfFiles) {
		t.Errorf("%d descriptors are open, %d were", now, descriptors)
	}
	var final programs.LoadReport
	f.load.Finish(t, &final)
	requireClean(t, final)
}
