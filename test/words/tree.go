// SPDX-License-Identifier: Apache-2.0

package words

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// skipped are folders and files, by their path from the root, that are not counted, and why.
var skipped = map[string]string{
	"bin":                  "what was built",
	"bench/results":        "what was measured",
	"bench/TRIED.md":       "history",
	"docs/decisions":       "history",
	"CHANGELOG.md":         "history",
	"test/RUNS.md":         "history",
	"test/hostile/RUNS.md": "history",
	"docs/fields.md":       "written from Go, where it counts",
	"docs/metrics.md":      "written from Go, where it counts",
	"docs/http.md":         "written from Go, where it counts",
	"docs/smuggling.md":    "written from Go, where it counts",
	"test/fuzz/corpus":     "data",
	"test/words":           "the list itself",
}

// isSkipped says whether a file or folder is not counted. Data of tests and hidden folders, such as tools and caches, never are.
func isSkipped(path string, entry fs.DirEntry) bool {
	if path == "." {
		return false
	}
	_, listed := skipped[path]
	return listed || entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"testdata", "node_modules", "vendor"}, entry.Name()))
}

// filesBelow are the paths of files that may count, from root, sorted.
func filesBelow(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		if isSkipped(filepath.ToSlash(rel), entry) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() && slices.Contains([]string{".go", ".c", ".h", ".md"}, filepath.Ext(rel)) {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files, err
}

// count looks for retired words in all files below root, and returns the hits of each folder and word in the order of files and lines.
func (r rule) count(root string) (map[key][]occurrence, error) {
	files, err := filesBelow(root)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no files to look at", root)
	}
	counted := map[key][]occurrence{}
	for _, file := range files {
		src, err := read(root, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		hits := r.hits(path.Dir(file), src)
		slices.SortStableFunc(hits, func(a, b hit) int { return a.line - b.line })
		for _, h := range hits {
			counted[h.key] = append(counted[h.key], occurrence{file: file, line: h.line, text: h.text})
		}
	}
	return counted, nil
}

// read is what a file declares and says. The name of a source file is one of its names; that of a page is not, since others link to it.
func read(root, file string) (source, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return source{}, err
	}
	text, ofFile := string(content), name{words: fileName(file), line: 1}
	switch path.Ext(file) {
	case ".go":
		src, isGenerated, err := readGo(file, text)
		if err != nil || isGenerated {
			return source{}, err
		}
		src.names = append(src.names, ofFile)
		return src, nil
	case ".md":
		return readMarkdown(text), nil
	}
	if strings.HasPrefix(path.Base(file), "vmlinux") {
		return source{}, nil // a dump of the kernel's types
	}
	src := readC(text)
	src.names = append(src.names, ofFile)
	return src, nil
}

// fileName is a file's name as words, without what all files of its kind have.
func fileName(file string) []string {
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	return splitName(strings.TrimSuffix(strings.TrimSuffix(base, ".bpf"), "_test"))
}
