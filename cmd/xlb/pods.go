// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/admin"
)

// namespaceOfPod is the inode number of a pod's network namespace, by what a daemon knows of pods.
func namespaceOfPod(ctx context.Context, address, pod string) (uint64, error) {
	if namespace, name, isName := strings.Cut(pod, "/"); pod == "" || isName && (namespace == "" || name == "" || strings.Contains(name, "/")) {
		return 0, refused(fmt.Errorf("--pod %q: want NAMESPACE/NAME as kubectl shows them, or the pod's UID, as in: --pod shop/web", pod))
	}
	rows, err := askRows[admin.Workload](ctx, address, admin.WorkloadsPath)
	if err != nil {
		return 0, err
	}
	found := slices.DeleteFunc(slices.Clone(rows), func(w admin.Workload) bool { return !isOfPod(&w, pod) })
	switch len(found) {
	case 0:
		return 0, refused(unknownPod(rows, pod))
	case 1:
		return found[0].Netns, nil
	}
	return 0, refused(severalOfPod(found, pod))
}

// isOfPod reports whether a workload is that of a pod, by its name with its namespace, or its UID.
func isOfPod(w *admin.Workload, pod string) bool {
	if strings.Contains(pod, "/") {
		return w.Pod != "" && w.PodNamespace+"/"+w.Pod == pod
	}
	return w.PodUID == pod
}

// unknownPod says what the daemon knows in place of a pod.
func unknownPod(rows []admin.Workload, pod string) error {
	const remedy = `"xlb get workloads" lists what it knows, and --pid names the network namespace of any process`
	isNamed := func(w admin.Workload) bool { return w.Pod != "" }
	switch {
	case !strings.Contains(pod, "/"):
		return fmt.Errorf("--pod %q: the daemon knows no pod with this UID; a name needs its namespace, as in shop/web; %s", pod, remedy)
	case !slices.ContainsFunc(rows, isNamed):
		return fmt.Errorf("--pod %q: the daemon knows no pod by its name: names come from the container runtime's NRI (xlb run --nri); give the pod's UID; %s", pod, remedy)
	}
	return fmt.Errorf("--pod %q: the daemon knows no pod of this name; %s", pod, remedy)
}

// severalOfPod says how to choose: a pod that has been made anew may have the name of one whose connections are open still.
func severalOfPod(found []admin.Workload, pod string) error {
	const most = 4
	var texts []string
	for i := range found[:min(len(found), most)] {
		texts = append(texts, workloadPhrase(&found[i]))
	}
	if more := len(found) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("--pod %q: %d workloads are of such a pod: %s; name one by the pod's UID, or by --pid", pod, len(found), strings.Join(texts, ", "))
}

func workloadPhrase(w *admin.Workload) string {
	text := fmt.Sprintf("%d (%s", w.ID, w.State)
	if w.PodUID != "" {
		text += ", UID " + printable(w.PodUID)
	}
	if w.PID != 0 {
		text += fmt.Sprintf(", PID %d", w.PID)
	}
	return text + ")"
}
