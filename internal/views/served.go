// SPDX-License-Identifier: Apache-2.0

package views

import "fmt"

// Served says what of a host is served: a view that selects anything else would select no workload.
type Served struct {
	// Others are network namespaces other than the daemon's own, Host is that.
	Others, Host bool
	// Pods are known by their names and labels.
	Pods bool
}

// Check returns why the file selects what is not served; nil: it does not.
func (f *File) Check(s Served) error {
	if name := f.selectsOthers(); name != "" && !s.Others {
		return fmt.Errorf("view %s selects other network namespaces than the daemon's own, which is the only one that is served (--namespaces=own, or the daemon lacks CAP_SYS_ADMIN "+
			"and CAP_SYS_PTRACE): have others served, or select {host: true} alone", name)
	}
	if name := f.selectsHost(); name != "" && !s.Host {
		return fmt.Errorf("view %s selects the host's own network namespace, which --namespaces=others does not serve: leave one of the two out", name)
	}
	if name := f.SelectsPods(); name != "" && !s.Pods {
		return fmt.Errorf("view %s selects pods by their names or labels, which are known from a container runtime alone (--nri, --namespaces); select by cgroup or netns", name)
	}
	return nil
}
