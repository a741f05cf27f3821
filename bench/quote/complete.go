// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// number stands alone: it is no part of a name (p99, HTTP/1.1), of a date or of a version.
	number = regexp.MustCompile(`(?:^|[\s(\[*~])([0-9][0-9,]*(?:\.[0-9]+)?)`)
	given  = regexp.MustCompile(`<!--given ([^>]*)-->`)
	// aside is what has no figures: code, where links lead, and headings.
	aside = regexp.MustCompile("(?m)`[^`\n]*`|\\]\\([^)]*\\)|^#.*$")
	// paragraph ends at an empty line, and where an item of a list begins.
	paragraph = regexp.MustCompile(`\n\s*\n|\n\s*- `)
)

// Unquoted names each number of the text that is neither a figure with a marker, nor one of a table or a notice made from runs, nor a
// setting that a figure of the same paragraph names (connections=32), nor said to be <!--given--> there. A size_bytes=65536 is 64, too.
// It names as well what is given and not used.
func Unquoted(text string) (faults []string) {
	text = aside.ReplaceAllString(block.ReplaceAllString(text, " "), " ")
	for _, part := range paragraph.Split(text, -1) {
		settings, unused := settingsOf(part)
		plain := figure.ReplaceAllString(part, " ")
		for _, m := range number.FindAllStringSubmatch(given.ReplaceAllString(plain, " "), -1) {
			n := strings.TrimSuffix(m[1], ",")
			delete(unused, n)
			if !slices.Contains(settings, n) {
				faults = append(faults, fmt.Sprintf("%s has no marker: %s", n, beginning(part)))
			}
		}
		for n := range unused {
			faults = append(faults, fmt.Sprintf("%s is given and not there: %s", n, beginning(part)))
		}
	}
	slices.Sort(faults)
	return faults
}

// settingsOf are the numbers that a paragraph may have without a marker; those that are given must be there.
func settingsOf(part string) (settings []string, unused map[string]bool) {
	for _, m := range figure.FindAllStringSubmatch(part, -1) {
		for _, word := range strings.Fields(m[2]) {
			key, value, _ := strings.Cut(word, "=")
			n, err := strconv.Atoi(value)
			if err != nil {
				continue
			}
			settings = append(settings, grouped(value))
			if key == "size_bytes" {
				settings = append(settings, strconv.Itoa(n>>10), strconv.Itoa(n>>20))
			}
		}
	}
	unused = map[string]bool{}
	for _, m := range given.FindAllStringSubmatch(part, -1) {
		for _, n := range strings.Fields(m[1]) {
			settings = append(settings, n)
			unused[n] = true
		}
	}
	return settings, unused
}

// beginning is enough of a paragraph to find it.
func beginning(part string) string {
	line := strings.Join(strings.Fields(part), " ")
	return line[:min(len(line), 80)]
}

// Section is the text below a heading of the second level, up to the next one; empty: there is none.
func Section(text, heading string) string {
	_, rest, found := strings.Cut(text, "\n## "+heading+"\n")
	if !found {
		return ""
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	return section
}
