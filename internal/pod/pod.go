// SPDX-License-Identifier: Apache-2.0

package pod

import "cmp"

// Pod is a pod of which a container runtime has told.
type Pod struct {
	// Runtime is the name of the container runtime, as Identity has it, Sandbox its ID of the pod.
	Runtime, Sandbox string
	// UID, Namespace and Name are Kubernetes'.
	UID, Namespace, Name string
	// Netns is a file of its network namespace, as the runtime sees it, PID the process that holds it. Either may be missing: "" and 0. A pod without a
	// network namespace of its own is that of the host's network.
	Netns string
	PID   int
	// Wish is what its labels ask for, Labels are those that views are selected by.
	Wish   Wish
	Labels Labels
}

// Identity is what a runtime reports of a pod.
func (p *Pod) Identity() Identity {
	return Identity{Runtime: p.Runtime, Container: p.Sandbox, UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}

// Identity is what is known of the pod, or container, that a network namespace belongs to. Fields that are not known are empty.
type Identity struct {
	// Runtime is the name of the container runtime, in lower case: containerd, cri-o, docker, podman.
	Runtime string
	// Container is its ID of the container of the namespace's oldest process. In Kubernetes that is the pod's sandbox, where there is one.
	Container string
	// UID, Namespace and Name are those of the Kubernetes pod.
	UID, Namespace, Name string
}

// Or is what is known by i, and where that knows nothing, by another one of the same namespace.
func (i Identity) Or(other Identity) Identity {
	return Identity{
		Runtime: cmp.Or(i.Runtime, other.Runtime), Container: cmp.Or(i.Container, other.Container),
		UID: cmp.Or(i.UID, other.UID), Namespace: cmp.Or(i.Namespace, other.Namespace), Name: cmp.Or(i.Name, other.Name),
	}
}

// shownID is how many digits of a container's ID are enough to tell it from others, as "docker ps" shows.
const shownID = 12

// String is how an identity is called in lines and tables: namespace/name of a pod, else "pod UID", else the runtime and the beginning of the container's
// ID. It is empty where nothing is known.
func (i Identity) String() string {
	switch {
	case i.Name != "":
		return i.Namespace + "/" + i.Name
	case i.UID != "":
		return "pod " + i.UID
	case i.Container == "":
		return ""
	case i.Runtime == "":
		return "container " + i.Container[:min(shownID, len(i.Container))]
	}
	return i.Runtime + " " + i.Container[:min(shownID, len(i.Container))]
}
