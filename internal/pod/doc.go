// SPDX-License-Identifier: Apache-2.0

// Package pod says what is known of pods and containers: by the paths of their cgroups (cgroup.go), by their labels (labels.go, labelset.go), and by what a container
// runtime tells (pod.go).
package pod
