// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/plural"
)

// namespaceDirectories are where "ip netns" and most container runtimes, and where Docker, give network namespaces names.
var namespaceDirectories = []string{"/run/netns", "/var/run/docker/netns"}

const aboutNamespaces = `The network namespace is that of a pod (--pod), by NAMESPACE/NAME or its UID, as the daemon knows
pods ("xlb get workloads"; names need the container runtime's NRI), that of a process (--pid), one
with a name, as "ip netns" and container runtimes give it (looked up in /run/netns, then in
/var/run/docker/netns), or any file of one, such as /proc/4711/ns/net. An argument with a slash in
it is a file.

A daemon at the default address that no operator has named, ` + admin.DefaultAddress + `, changes nothing: start it with
--admin. "xlb get workloads" shows what holds.`

func releaseCommand(e *env) *cobra.Command {
	return workloadCommand(e, admin.ReleaseWorkloadPath, &cobra.Command{
		Use:   "release NAME|FILE",
		Short: "Have a running daemon leave a network namespace, as of a pod",
		Long: `Takes a network namespace out of a running daemon: new connections of its processes go where they
lead without a balancer, at once. Connections that are open are served to their end, and when the
last has closed the daemon closes all that it has there. It lasts until "xlb join", or until the
daemon ends. The daemon's own namespace is not released so: start it with --namespaces=others.

` + aboutNamespaces,
		Example: "  xlb release web\n  xlb release --pod shop/web-7d4b9c6f5-x2x7k\n  xlb release --pid 4711\n  xlb release /proc/4711/ns/net --admin 127.0.0.1:9902 --output json",
	})
}

func joinCommand(e *env) *cobra.Command {
	return workloadCommand(e, admin.JoinWorkloadPath, &cobra.Command{
		Use:   "join NAME|FILE",
		Short: "Have a running daemon serve a network namespace that was released or excluded",
		Long: `Takes back a network namespace that "xlb release" has taken out of a running daemon: new connections
of its processes are balanced. Connections that were opened meanwhile stay as they are. So does it
with one that the labels of its pod exclude: it is balanced until it is released, or ends. A
namespace that the daemon has not found yet, or could not join, is looked for at once.

` + aboutNamespaces,
		Example: "  xlb join web\n  xlb join --pod shop/web-7d4b9c6f5-x2x7k\n  xlb join --pid 4711\n  xlb join /proc/4711/ns/net --admin 127.0.0.1:9902 --output json",
	})
}

// workloadCommand completes a command that has a daemon change one network namespace, by a page of its admin API.
func workloadCommand(e *env, page string, c *cobra.Command) *cobra.Command {
	var address, pod string
	var pid int
	c.Args = func(c *cobra.Command, args []string) error {
		given := 0
		for _, is := range []bool{len(args) == 1 && args[0] != "", c.Flags().Changed("pid"), c.Flags().Changed("pod")} {
			if is {
				given++
			}
		}
		if len(args) > 1 || given != 1 {
			return fmt.Errorf("%[1]s: want one network namespace, by a name, a file, --pod or --pid, as in: xlb %[1]s web", nameOf(c))
		}
		return nil
	}
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || strings.Contains(begun, "/") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return namesOfNamespaces(begun), cobra.ShellCompDirectiveDefault
	}
	c.Flags().StringVar(&address, "admin", admin.DefaultAddress, adminUsage)
	c.Flags().IntVar(&pid, "pid", 0, "`number` of a process in the network namespace, in place of its name")
	c.Flags().StringVar(&pod, "pod", "", "`NAMESPACE/NAME`, or UID, of the pod in the network namespace, in place of its name")
	completes(c, "pod")
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		var is uint64
		var err error
		switch {
		case c.Flags().Changed("pod"):
			is, err = namespaceOfPod(c.Context(), address, pod)
		case c.Flags().Changed("pid"):
			is, err = namespaceOfProcess(pid)
			err = refused(err)
		default:
			is, err = namespaceCalled(args[0])
			err = refused(err)
		}
		if err != nil {
			return err
		}
		row, err := changeWorkload(c.Context(), address, page, is)
		if err != nil {
			return err
		}
		return printWorkload(e, *output, row)
	}
	return c
}

// namespaceOfProcess is the inode number of a process's network namespace.
func namespaceOfProcess(pid int) (uint64, error) {
	inode, err := netns.InodeOfFile(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("--pid %d: no such process; give the number of one that runs, as ps shows it here", pid)
	case errors.Is(err, fs.ErrPermission):
		return 0, fmt.Errorf("--pid: %w; run as root", err)
	case err != nil:
		return 0, fmt.Errorf("--pid: %w", err)
	}
	return inode.Number, nil
}

// namespaceCalled is the inode number of a network namespace, by its name or a file of it.
func namespaceCalled(name string) (uint64, error) {
	files := []string{name}
	if !strings.Contains(name, "/") {
		files = filesCalled(name)
	}
	for _, file := range files {
		inode, err := netns.InodeOfFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, netns.ErrNoNamespace):
			return 0, fmt.Errorf("%s: not the file of a network namespace; give a name that \"ip netns\" shows, a file such as /proc/PID/ns/net, or --pid", file)
		case errors.Is(err, fs.ErrPermission):
			return 0, fmt.Errorf("%w; run as root", err)
		case err != nil:
			return 0, err
		}
		return inode.Number, nil
	}
	return 0, fmt.Errorf("network namespace %q: there is no %s; give a name that \"ip netns\" shows, a file such as /proc/PID/ns/net, or --pid", name, strings.Join(files, ", and no "))
}

func filesCalled(name string) []string {
	files := make([]string, len(namespaceDirectories))
	for i, dir := range namespaceDirectories {
		files[i] = filepath.Join(dir, name)
	}
	return files
}

// nameOfNamespace is what "xlb release" may call a network namespace with such a file: its name, or the file where that means another one.
func nameOfNamespace(file string) string {
	text := file
	if dir, name := filepath.Split(file); slices.Contains(namespaceDirectories, filepath.Clean(dir)) && isFirst(name, file) {
		text = name
	}
	return printable(text)
}

// printable escapes what a terminal would obey, or not show, in a text of another's choice.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// isFirst reports whether a name means this file: no directory that is looked at before has one with that name.
func isFirst(name, file string) bool {
	for _, other := range filesCalled(name) {
		if other == filepath.Clean(file) {
			return true
		}
		if _, err := os.Lstat(other); err == nil {
			return false
		}
	}
	return false
}

// namesOfNamespaces are those that a shell offers for what is begun.
func namesOfNamespaces(begun string) (names []string) {
	for _, dir := range namespaceDirectories {
		// A directory that is missing, or may not be read, has no names to offer.
		files, _ := os.ReadDir(dir)
		for _, file := range files {
			if strings.HasPrefix(file.Name(), begun) {
				names = append(names, file.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// changeWorkload asks a daemon, and returns what holds behind it.
func changeWorkload(ctx context.Context, address, page string, is uint64) (*admin.Workload, error) {
	query := url.Values{admin.NetnsParameter: {strconv.FormatUint(is, 10)}}
	answer, err := sendAdmin(ctx, http.MethodPost, address, page+"?"+query.Encode())
	if other, ok := errors.AsType[*statusError](err); ok && other.status == http.StatusNotFound && strings.Contains(other.text, admin.ErrUnknownWorkload.Error()) {
		// The daemon has the page, and not the namespace.
		return nil, refused(errors.New(other.text))
	}
	if err != nil {
		return nil, err
	}
	var row admin.Workload
	err = json.Unmarshal(answer, &row)
	if err == nil && workloadText(&row) == "" {
		err = fmt.Errorf("it says %q of a network namespace", row.State)
	}
	if err != nil {
		return nil, fmt.Errorf("admin address %s: the daemon's answer is not ours: %w; use the xlb of the daemon's version", address, err)
	}
	return &row, nil
}

func printWorkload(e *env, output format, row *admin.Workload) error {
	if output == formatJSON {
		return writeJSON(e.stdout, row)
	}
	_, err := fmt.Fprintln(e.stdout, workloadText(row))
	return err
}

// workloadText says what holds; empty: that is not known.
func workloadText(w *admin.Workload) string {
	switch w.State {
	case admin.WorkloadServed:
		return "served: new connections are balanced"
	case admin.WorkloadLeaving:
		if w.Connections == 0 {
			return "leaving: no connection is open any more; new ones are not balanced"
		}
		return fmt.Sprintf("leaving: %s %s open still; new ones are not balanced", plural.Of(w.Connections, "connection"), plural.Verb(w.Connections, "is", "are"))
	case admin.WorkloadExcluded:
		return fmt.Sprintf("excluded: %s: nothing of the daemon is in it; new connections are not balanced", printable(w.Why))
	case admin.WorkloadReleased:
		return "released: nothing of the daemon is in it; new connections are not balanced"
	}
	return ""
}
