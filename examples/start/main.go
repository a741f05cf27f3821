// SPDX-License-Identifier: Apache-2.0

// Command start runs an application of examples/ as plain processes in a cgroup, with XLB, Envoy or nobody to balance between them.
// The scripts "run" of the applications call it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/xlb-project/xlb/examples/app"
)

const usage = `usage: run [up] [--balancer xlb|envoy|none]    start everything; Ctrl-C stops it
       run ask PATH [curl's arguments]            ask the first service, as one of the application's own processes
       run load [--users N] [--duration D]        many users at once; both with --balancer none, if it was started so
`

// Who balances.
const (
	balancerXLB   = "xlb"
	balancerEnvoy = "envoy"
	balancerNone  = "none"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

// run takes the application's folder, the verb and its arguments.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("name the folder of an application")
	}
	a, err := app.Load(args[0])
	if err != nil {
		return err
	}
	verb, args := "up", args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	balancer, args, err := takeBalancer(args)
	if err != nil {
		return err
	}
	build, err := filepath.Abs(filepath.Join("bin", "examples", a.Name))
	if err != nil {
		return err
	}
	switch {
	case verb == "up" && len(args) == 0:
		return up(ctx, a, build, balancer)
	case verb == "ask" && len(args) > 0:
		return ask(a, balancer, args)
	case verb == "load":
		return load(a, build, balancer, args)
	case verb == "help" || slices.Contains(args, "--help"):
		_, err := fmt.Print(usage)
		return err
	}
	return errors.New("no such verb or argument: see --help")
}

// takeBalancer takes --balancer out of the arguments.
func takeBalancer(args []string) (string, []string, error) {
	i := slices.Index(args, "--balancer")
	if i < 0 {
		return balancerXLB, args, nil
	}
	if i+1 == len(args) || !slices.Contains([]string{balancerXLB, balancerEnvoy, balancerNone}, args[i+1]) {
		return "", nil, errors.New("--balancer is xlb, envoy or none")
	}
	return args[i+1], slices.Concat(args[:i], args[i+2:]), nil
}

// cgroupName is that of an application's processes.
func cgroupName(a app.App) string { return "xlb-" + a.Name }

// up starts everything, says what runs, waits for the end and stops everything.
func up(ctx context.Context, a app.App, build, balancer string) (err error) {
	if err := a.Build(ctx, build); err != nil {
		return err
	}
	// Other users of the machine run some of the processes.
	data, err := os.MkdirTemp("", cgroupName(a)+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	if err := os.Chmod(data, 0o755); err != nil {
		return err
	}
	cgroup, err := app.NewCgroup(cgroupName(a))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cgroup.Close()) }()

	var running []*app.Running
	defer func() {
		for _, r := range slices.Backward(running) {
			err = errors.Join(err, r.Stop())
		}
	}()
	processes, err := a.Processes(build, data, balancer == balancerNone)
	if err != nil {
		return err
	}
	if running, err = startAll(ctx, processes, cgroup); err != nil {
		return err
	}
	if balancer != balancerNone {
		r, err := startBalancer(ctx, a, cgroup, balancer)
		if err != nil {
			return err
		}
		running = append(running, r)
	}
	if err := show(a, running, balancer); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// startAll starts the processes and waits until they serve. Those that it has started it returns with an error, too.
func startAll(ctx context.Context, processes []app.Process, cgroup *app.Cgroup) (running []*app.Running, err error) {
	for _, p := range processes {
		r, err := app.Start(p, cgroup)
		if err != nil {
			return running, err
		}
		running = append(running, r)
		// Databases are there before anybody asks them; all others come up side by side.
		if p.HTTP {
			continue
		}
		if err := r.Await(ctx); err != nil {
			return running, err
		}
	}
	for _, r := range running {
		if err := r.Await(ctx); err != nil {
			return running, err
		}
	}
	return running, nil
}

// startBalancer starts XLB or Envoy, outside of the application's cgroup, with the same file.
func startBalancer(ctx context.Context, a app.App, cgroup *app.Cgroup, balancer string) (*app.Running, error) {
	admin, err := a.Admin()
	if err != nil {
		return nil, err
	}
	path, args := "bin/xlb", []string{"run", "--config", a.File(), "--cgroup", cgroup.Dir, "--admin", admin.String()}
	if balancer == balancerEnvoy {
		path, args = ".tools/bin/envoy", []string{"-c", a.File(), "--concurrency", "2", "--use-dynamic-base-id", "--log-level", "error"}
	}
	path, err = exec.LookPath(path)
	if err != nil {
		return nil, fmt.Errorf("%w: \"make build\" makes XLB, \"scripts/install-deps envoy\" brings Envoy", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	r, err := app.Start(app.Process{Name: balancer, Path: path, Args: args, Env: os.Environ(), Listen: admin}, nil)
	if err != nil {
		return nil, err
	}
	if err := r.AwaitURL(ctx, "http://"+admin.String()+"/ready"); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// show says what runs and how to go on.
func show(a app.App, running []*app.Running, balancer string) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tPID\tLISTENS AT")
	for _, r := range running {
		fmt.Fprintf(table, "%s\t%d\t%s\n", r.Name, r.Pid(), r.Listen)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Printf("%s is ready, balanced by %s; users ask %s. Ctrl-C stops it.\n",
		a.Name, balancer, a.Targets(balancer == balancerNone)[0])
	return err
}

// ask becomes curl inside the application's cgroup.
func ask(a app.App, balancer string, args []string) error {
	target := a.Targets(balancer == balancerNone)[0]
	return become(a, "curl", append([]string{"--noproxy", "*", "--silent", "--show-error", "http://" + target.String() + args[0]}, args[1:]...))
}

// load becomes the application's load inside its cgroup.
func load(a app.App, build, balancer string, args []string) error {
	for _, target := range a.Targets(balancer == balancerNone) {
		args = append(args, "--target", target.String())
	}
	return become(a, filepath.Join(build, "load"), args)
}

// become replaces this process by another one inside the application's cgroup.
func become(a app.App, name string, args []string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	if err := app.Join(cgroupName(a)); err != nil {
		return fmt.Errorf("%w: is the application running?", err)
	}
	return syscall.Exec(path, append([]string{name}, args...), os.Environ())
}
