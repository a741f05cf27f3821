// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
)

// maxNames bounds the files of a directory that are looked at.
const maxNames = 4096

// names are the files of network namespaces in watched directories, where container runtimes and ip-netns(8) mount them. It holds no namespace open, or it
// would keep alive what their owners have removed. So a namespace may get the inode of one that has ended, and with the same name again it passes for that
// one: the kernel reports it with its first connection, as one without a name. No namespace that is served can be mistaken: the Set has it open, so that no
// other gets its inode, and knows it by its cookie. It is not safe for concurrent use.
type names struct {
	dirs []*directory
	// paths has a name of each namespace at the last look.
	paths map[netns.Inode]string
}

// named is a network namespace that has a name.
type named struct {
	path  string
	inode netns.Inode
}

func newNames(dirs []string) *names {
	n := &names{paths: map[netns.Inode]string{}}
	for _, dir := range dirs {
		n.dirs = append(n.dirs, &directory{path: dir})
	}
	return n
}

// look reads the directories, and returns the namespaces that have got a name since the last look, each with its first one, in the order of directories and
// names. Names that a directory has at its first look are not among them; a directory that is missing is empty. A file that is no network namespace may become
// one: runtimes make an empty file, and mount the namespace over it. The error is of what could not be looked at; what has been found is right all the same.
func (n *names) look() (fresh []named, err error) {
	var failed failures
	var old, others []named
	for _, dir := range n.dirs {
		stayed, came := dir.look(&failed)
		old, others = append(old, stayed...), append(others, came...)
	}
	paths := map[netns.Inode]string{}
	for _, name := range old {
		// Of several names one is given for as long as it is there.
		if paths[name.inode] == "" || n.paths[name.inode] == name.path {
			paths[name.inode] = name.path
		}
	}
	for _, name := range others {
		// A second name makes no namespace new.
		if paths[name.inode] == "" {
			paths[name.inode] = name.path
			fresh = append(fresh, name)
		}
	}
	n.paths = paths
	return fresh, failed.err()
}

// pathOf is a name that a namespace had at the last look, "": it had no name.
func (n *names) pathOf(inode netns.Inode) string { return n.paths[inode] }

// directory is one that is watched.
type directory struct {
	path string
	// named are its names of network namespaces at the last look that could read it. wasRead: there was one.
	named   map[string]netns.Inode
	wasRead bool
}

// look returns the names of network namespaces that were there at the last look, each with the same namespace, and the others. At the first look all were
// there.
func (d *directory) look(failed *failures) (stayed, came []named) {
	paths, excess, err := d.list()
	if err != nil {
		failed.add(fmt.Errorf("look for names of network namespaces: %w", err))
		// What is in it is not known: names that are there still are not to be new at the next look.
		return d.sorted(), nil
	}
	if excess > 0 {
		failed.add(fmt.Errorf("%s has %d files more than the %d that are looked at for names of network namespaces: remove those that are not used",
			d.path, excess, maxNames))
	}
	before, isFirst := d.named, !d.wasRead
	d.named, d.wasRead = map[string]netns.Inode{}, true
	for _, path := range paths {
		inode, is, err := namespaceAt(path, before[path])
		switch {
		case err != nil:
			failed.add(fmt.Errorf("look for names of network namespaces: %w", err))
		case is:
			d.named[path] = inode
		}
	}
	for _, name := range d.sorted() {
		if isFirst || before[name.path] == name.inode {
			stayed = append(stayed, name)
			continue
		}
		came = append(came, name)
	}
	return stayed, came
}

// sorted are its names in their order.
func (d *directory) sorted() []named {
	list := make([]named, 0, len(d.named))
	for path, inode := range d.named {
		list = append(list, named{path, inode})
	}
	slices.SortFunc(list, func(a, b named) int { return cmp.Compare(a.path, b.path) })
	return list
}

// list returns the paths of up to maxNames files in it, among them all that have named a network namespace, and the number of the others.
func (d *directory) list() (paths []string, excess int, err error) {
	// Only a directory: to open a pipe may wait.
	dir, err := os.OpenFile(d.path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if isGone(err) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	free := maxNames - len(d.named)
	for {
		const atOnce = 256
		files, err := dir.Readdirnames(atOnce)
		for _, file := range files {
			path := filepath.Join(d.path, file)
			switch _, was := d.named[path]; {
			case was:
			case free == 0:
				excess++
				continue
			default:
				free--
			}
			paths = append(paths, path)
		}
		switch {
		case errors.Is(err, io.EOF) || isGone(err):
			return paths, excess, nil
		case err != nil:
			return nil, 0, err
		}
	}
}

// namespaceAt returns the network namespace that a file is, or that links lead to. false: it is another file, or is gone. The file has been one with the inode
// last, or last is that of none.
func namespaceAt(path string, last netns.Inode) (inode netns.Inode, is bool, err error) {
	if inode, err := netns.InodeOf(path); err == nil && inode == last {
		return inode, true, nil
	}
	inode, err = netns.InodeOfFile(path)
	if isGone(err) || errors.Is(err, netns.ErrNoNamespace) {
		return netns.Inode{}, false, nil
	}
	return inode, err == nil, err
}
