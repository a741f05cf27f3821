// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"github.com/xlb-project/xlb/internal/pod"
)

// What is kept of a runtime's pods: so many, and names of so many bytes. Those of Kubernetes have at most 253; file names end at 4,096.
const (
	maxPods  = 16384
	maxName  = 253
	maxNetns = 4096
	maxShown = 64
)

// admitAll is admit for all pods that there are, in place of those that are known. The caller holds mu.
func (c *Client) admitAll(sandboxes []*api.PodSandbox) []pod.Pod {
	before := c.sandboxes
	c.sandboxes = make(map[string]struct{}, min(maxPods, len(sandboxes)))
	list := make([]pod.Pod, 0, min(maxPods, len(sandboxes)))
	var reasons []error
	for _, sandbox := range sandboxes {
		if _, again := c.sandboxes[sandbox.GetId()]; again {
			continue
		}
		p, err := c.admitBeside(sandbox, before)
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		list = append(list, p)
	}
	if len(reasons) > 0 {
		c.state.LeftOut += uint64(len(reasons))
		c.cfg.Logger.Warn("pods of the container runtime are left out; they have no names and no labels", "pods", len(reasons), "err", reasons[0])
	}
	return list
}

// admit makes a pod of what a runtime has reported, and notes that it is known. The caller holds mu.
func (c *Client) admit(sandbox *api.PodSandbox) (pod.Pod, error) {
	return c.admitBeside(sandbox, c.sandboxes)
}

// admitBeside is admit; of pods that were known before, labels have been logged.
func (c *Client) admitBeside(sandbox *api.PodSandbox, before map[string]struct{}) (pod.Pod, error) {
	p, err := podOf(sandbox)
	if err != nil {
		return pod.Pod{}, err
	}
	_, isKnown := c.sandboxes[p.Sandbox]
	if !isKnown && len(c.sandboxes) == maxPods {
		return pod.Pod{}, fmt.Errorf("there are more than %d pods", maxPods)
	}
	p.Runtime = c.runtime
	_, isLogged := before[p.Sandbox]
	if !isLogged && p.Wish.Unread != "" {
		c.cfg.Logger.Warn("a label of a pod has an unknown value, and says nothing; use true or false", "pod", p.Identity(), "label", p.Wish.Unread)
	}
	p.Labels, err = pod.LabelsOf(sandbox.GetLabels())
	if err != nil && !isLogged {
		c.cfg.Logger.Warn("the labels of a pod are too long, and select no view; use fewer", "pod", p.Identity(), "err", err)
	}
	c.sandboxes[p.Sandbox] = struct{}{}
	return p, nil
}

// podOf reads what a runtime reports of a pod. The error says what of it is beyond what is taken.
func podOf(sandbox *api.PodSandbox) (pod.Pod, error) {
	p := pod.Pod{
		Sandbox: sandbox.GetId(), UID: sandbox.GetUid(), Namespace: sandbox.GetNamespace(), Name: sandbox.GetName(),
		Netns: netnsOf(sandbox), PID: pidOf(sandbox), Wish: pod.WishOf(sandbox.GetLabels()),
	}
	if p.Sandbox == "" {
		return pod.Pod{}, errors.New("it has no ID")
	}
	for _, n := range []struct{ what, name string }{{"ID", p.Sandbox}, {"UID", p.UID}, {"namespace", p.Namespace}, {"name", p.Name}} {
		if err := checkName(n.name); err != nil {
			return pod.Pod{}, fmt.Errorf("its %s %w", n.what, err)
		}
	}
	if len(p.Netns) > maxNetns || strings.ContainsRune(p.Netns, 0) {
		return pod.Pod{}, fmt.Errorf("its network namespace has no name of a file of at most %d bytes", maxNetns)
	}
	return p, nil
}

// checkName refuses what is no name of Kubernetes or of a runtime: it is shown in tables, in lines of the log, and as a label of metrics.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("has %d bytes; at most %d are taken", len(name), maxName)
	}
	for i := range len(name) {
		if !isOfName(name[i]) {
			return fmt.Errorf("is %q; letters, digits, and \"-\", \"_\", \".\", \":\" are taken", name[:min(len(name), maxShown)])
		}
	}
	return nil
}

func isOfName(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("-_.:", c) >= 0
}

// netnsOf is the file of a pod's network namespace; empty where it has none, or the runtime makes it without a name.
func netnsOf(sandbox *api.PodSandbox) string {
	for _, n := range sandbox.GetLinux().GetNamespaces() {
		if n.GetType() == "network" {
			return n.GetPath()
		}
	}
	return ""
}

// pidOf is the process that holds a pod's namespaces; 0: it has none, or its network namespace is the host's, which is no pod's, and of which many pods are.
func pidOf(sandbox *api.PodSandbox) int {
	all := sandbox.GetLinux().GetNamespaces()
	isNetwork := func(n *api.LinuxNamespace) bool { return n.GetType() == "network" }
	if len(all) > 0 && !slices.ContainsFunc(all, isNetwork) {
		return 0
	}
	if pid := sandbox.GetPid(); pid <= math.MaxInt32 {
		return int(pid)
	}
	return 0
}

// printable is a text of the runtime's as it may be shown.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), maxShown)])
}
