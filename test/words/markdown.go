// SPDX-License-Identifier: Apache-2.0

package words

import (
	"regexp"
	"strings"
)

// target is where a link leads.
var target = regexp.MustCompile(`\]\([^)\n]*\)`)

// readMarkdown is the text of a page: without blocks and spans of code, and without the targets of links.
func readMarkdown(text string) source {
	var src source
	line, begin := 1, 1
	var paragraph strings.Builder
	end := func() {
		visible := target.ReplaceAllString(withoutSpans(paragraph.String()), "]")
		src.prose = append(src.prose, splitProse(visible, begin)...)
		paragraph.Reset()
	}
	fence := ""
	for l := range strings.Lines(text) {
		trimmed := strings.TrimSpace(l)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			end()
			fence = trimmed[:3]
		case trimmed == "":
			end()
		default:
			if paragraph.Len() == 0 {
				begin = line
			}
			paragraph.WriteString(l)
		}
		line++
	}
	end()
	return src
}

// withoutSpans puts a pause, and the line ends that it had, in place of each span of code: as many backticks end it as began it.
func withoutSpans(text string) string {
	var out strings.Builder
	for {
		before, tail, found := strings.Cut(text, "`")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		after := strings.TrimLeft(tail, "`")
		fence := "`" + tail[:len(tail)-len(after)]
		code, behind, closed := strings.Cut(after, fence)
		if !closed {
			out.WriteString(fence)
			text = after
			continue
		}
		out.WriteString(pause + strings.Repeat("\n", strings.Count(code, "\n")))
		text = behind
	}
}
