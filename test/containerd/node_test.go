// SPDX-License-Identifier: Apache-2.0

// Package containerd runs pods by containerd, with XLB beside it, which containerd notifies of them by its Node Resource Interface (NRI). It needs root and what
// "scripts/install-deps containerd" installs, and runs by scripts/isolate alone: containerd has directories of its own at fixed paths.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/machine"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// patience bounds what containerd, or the daemon, is to do.
const patience = time.Minute

// stateDir is containerd's. Its shims have their sockets below it, whatever its configuration says.
const stateDir = "/run/containerd"

// Where containerd serves.
const (
	criSocket = stateDir + "/containerd.sock"
	nriSocket = stateDir + "/nri.sock"
)

// podNetwork has the addresses of pods.
const podNetwork = "10.244.0.0/24"

// requestTimeout is how long containerd waits for a plugin: its default.
const requestTimeout = 2 * time.Second

// node is a host whose pods containerd runs.
type node struct {
	// Place is where XLB runs, and system where containerd does. Those of pods are below the cgroup of kubepods, which has no process of its own: on hosts with
	// cgroup v2 alone, runc gives controllers to those below.
	*harness.Place
	system, kubepods *harness.Place

	dir     string
	process *harness.Process
	runtime cri.RuntimeServiceClient
	pods    []*pod
}

// newNode starts containerd, and has nothing of it left when the test ends.
func newNode(t *testing.T) *node {
	t.Helper()
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	if os.Getenv(machine.RunVariable) == "" {
		t.Fatal("containerd has its sockets at fixed paths, and mounts what may stay: run this by make test-containerd, or with scripts/isolate before it")
	}
	n := &node{Place: harness.SameHost(t), system: harness.SameHost(t), kubepods: harness.SameHost(t), dir: t.TempDir()}
	n.mountState(t)
	t.Cleanup(func() { n.removeCgroups(t) })
	n.configure(t)
	n.start(t)
	binary := compile(t, n.dir)
	n.load(t, writeImage(t, n.dir, pauseImage, binary, "pause"))
	n.load(t, writeImage(t, n.dir, podImage, binary))
	return n
}

// mountState gives containerd a directory of its own, in the mounts of the run of scripts/isolate.
func (n *node) mountState(t *testing.T) {
	t.Helper()
	err := os.Mkdir(stateDir, 0o755)
	made := err == nil
	if err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	if err := unix.Mount("none", stateDir, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatalf("mount containerd's directory: %v", err)
	}
	t.Cleanup(func() {
		// With all that is mounted below it, as the root of a container that was killed.
		err := errors.Join(unmountBelow(stateDir), unmountBelow(n.dir))
		if made {
			err = errors.Join(err, os.Remove(stateDir))
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// unmountBelow removes what is mounted at a directory and below it.
func unmountBelow(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		at := strings.Fields(line)[4]
		if at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		// What is below one that goes has gone with it.
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// cgroup is the path of a cgroup of the node, as runtimes say it.
func (n *node) cgroup(below ...string) string {
	return filepath.Join(append([]string{"/", filepath.Base(n.kubepods.Cgroup()), "kubepods"}, below...)...)
}

// v1Cgroups has the hierarchies of cgroup v1, on hybrid hosts. Pods are in a cgroup of that path in each of them.
const v1Cgroups = "/sys/fs/cgroup"

// removeCgroups ends what is left of pods, and of containerd's shims, and removes the cgroups of pods. Those of v2 first: their processes are in v1's, too.
func (n *node) removeCgroups(t *testing.T) {
	t.Helper()
	for _, dir := range []string{n.kubepods.Cgroup(), n.system.Cgroup()} {
		// Each pod ends before this, unless the test has failed.
		if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
			t.Error(err)
		}
	}
	own := n.kubepods.Cgroup()
	dirs, err := filepath.Glob(filepath.Join(v1Cgroups, "*", filepath.Base(own)))
	if err != nil {
		t.Fatal(err)
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return dir == own })
	for _, dir := range append([]string{filepath.Join(own, "kubepods")}, dirs...) {
		harness.Eventually(t, patience, "the cgroup "+dir+" is removed", func() bool { return removeTree(dir) })
	}
}

// removeTree removes a cgroup and those below it. false: not yet.
func removeTree(dir string) bool {
	below, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	for _, entry := range below {
		if entry.IsDir() && !removeTree(filepath.Join(dir, entry.Name())) {
			return false
		}
	}
	return unix.Rmdir(dir) == nil
}

// containerdConfig is with cgroupfs as its driver of cgroups. restrict_oom_score_adj is for hosts whose root lacks CAP_SYS_RESOURCE.
var containerdConfig = template.Must(template.New("").Parse(`version = 3
root = "{{.Root}}"
state = "` + stateDir + `"
[grpc]
address = "` + criSocket + `"
[plugins."io.containerd.nri.v1.nri"]
disable = false
socket_path = "` + nriSocket + `"
plugin_path = "{{.Root}}/nri/plugins"
plugin_config_path = "{{.Root}}/nri/conf.d"
plugin_request_timeout = "{{.RequestTimeout}}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "` + pauseImage + `"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{{.Root}}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
`))

// cniConfig has a wire from each pod to the node, and no bridge.
var cniConfig = template.Must(template.New("").Parse(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": {
	"type": "host-local", "dataDir": "{{.Root}}/addresses", "ranges": [[{"subnet": "` + podNetwork + `"}]], "routes": [{"dst": "0.0.0.0/0"}]
}}]}
`))

func (n *node) configFile() string { return filepath.Join(n.dir, "containerd.toml") }

// configure writes containerd's configuration.
func (n *node) configure(t *testing.T) {
	t.Helper()
	values := struct {
		Root           string
		RequestTimeout time.Duration
	}{n.dir, requestTimeout}
	for _, file := range []struct {
		path string
		text *template.Template
	}{{n.configFile(), containerdConfig}, {filepath.Join(n.dir, "cni", "10-pods.conflist"), cniConfig}} {
		var text strings.Builder
		err := errors.Join(file.text.Execute(&text, values), os.MkdirAll(filepath.Dir(file.path), 0o755))
		if err == nil {
			err = os.WriteFile(file.path, []byte(text.String()), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tool is a program that scripts/install-deps has built.
func tool(t *testing.T, name string) string {
	t.Helper()
	return harness.Tool(t, filepath.Join("containerd", "bin", name))
}

// start runs containerd until it is ready for pods.
func (n *node) start(t *testing.T) {
	t.Helper()
	binary := tool(t, "containerd")
	cmd := exec.Command(binary, "--config", n.configFile())
	// It looks for its shim and for runc there.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":/usr/sbin:/usr/bin:/sbin:/bin")
	client, err := grpc.NewClient("unix://"+criSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	n.runtime = cri.NewRuntimeServiceClient(client)
	n.process = n.system.RunCommand(t, cmd)
	// Before containerd ends, which removes none.
	t.Cleanup(func() {
		for _, p := range n.pods {
			p.remove(t)
		}
	})
	harness.Eventually(t, patience, "containerd is ready for pods", func() bool {
		if !n.process.Alive() {
			t.Fatalf("containerd ended:\n%s", n.process.Stderr())
		}
		return n.isReady(t.Context())
	})
}

func (n *node) isReady(ctx context.Context) bool {
	status, err := n.runtime.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return false
	}
	for _, condition := range status.Status.Conditions {
		if !condition.Status && condition.Type != "ContainerdHasNoDeprecationWarnings" {
			return false
		}
	}
	return true
}

// stop ends containerd, as its update does. Pods run on.
func (n *node) stop(t *testing.T) {
	t.Helper()
	n.process.Signal(t, syscall.SIGTERM)
	n.process.Wait(t, patience)
}

// load gives containerd an image.
func (n *node) load(t *testing.T, archive string) {
	t.Helper()
	n.system.Run(t, tool(t, "ctr"), "--address", criSocket, "--namespace", "k8s.io", "images", "import", archive).Output(t, patience)
}
