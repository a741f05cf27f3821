// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// pods are those that a container runtime has reported.
type pods struct {
	bySandbox map[string]pod.Pod
	// sandboxes has those of each pod by its UID: a pod whose sandbox has ended gets another one, and the runtime removes the first later. The last is the
	// newest.
	sandboxes map[string][]string
	// inodes are those of the network namespaces that sandboxes had when they were reported, and byInode has the last sandbox that had each. The namespaces
	// may have ended since.
	inodes  map[string]netns.Inode
	byInode map[netns.Inode]string
}

func newPods() *pods {
	return &pods{bySandbox: map[string]pod.Pod{}, sandboxes: map[string][]string{}, inodes: map[string]netns.Inode{}, byInode: map[netns.Inode]string{}}
}

func (p *pods) add(one pod.Pod) {
	p.remove(one.Sandbox)
	p.bySandbox[one.Sandbox] = one
	if one.UID != "" {
		p.sandboxes[one.UID] = append(p.sandboxes[one.UID], one.Sandbox)
	}
}

func (p *pods) remove(sandbox string) {
	one, ok := p.bySandbox[sandbox]
	if !ok {
		return
	}
	delete(p.bySandbox, sandbox)
	if inode, ok := p.inodes[sandbox]; ok && p.byInode[inode] == sandbox {
		delete(p.byInode, inode)
	}
	delete(p.inodes, sandbox)
	others := slices.DeleteFunc(p.sandboxes[one.UID], func(other string) bool { return other == sandbox })
	if len(others) == 0 {
		delete(p.sandboxes, one.UID)
		return
	}
	p.sandboxes[one.UID] = others
}

// note takes in that a sandbox has the network namespace with that inode.
func (p *pods) note(sandbox string, inode netns.Inode) {
	p.inodes[sandbox], p.byInode[inode] = inode, sandbox
}

// of finds the pod of a container, by the pod's UID, or as its sandbox.
func (p *pods) of(container pod.Identity) (one pod.Pod, ok bool) {
	if sandboxes := p.sandboxes[container.UID]; container.UID != "" && len(sandboxes) > 0 {
		one, ok = p.bySandbox[sandboxes[len(sandboxes)-1]]
		return one, ok
	}
	if one, ok = p.bySandbox[container.Container]; ok && container.UID != "" && one.UID != container.UID {
		return pod.Pod{}, false
	}
	return one, ok
}
