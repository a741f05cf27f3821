// SPDX-License-Identifier: Apache-2.0

// Package pods makes network namespaces as the pods of a node have them, with a server and a client in each. They come and go (Churn), or stay (Crowd).
//
// A pod is no process of this program: a Go program takes some 10 ms of processor time to start, too much for a hundred a second on two processors. A
// thread makes the namespace, opens the pod's sockets in it, and connects from within. What shows to others which namespace that is, is the thread itself,
// or a process of a pod that does nothing (cat), as the pause container of Kubernetes does.
package pods
