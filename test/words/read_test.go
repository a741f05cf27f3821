// SPDX-License-Identifier: Apache-2.0

package words

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesAreSplit(t *testing.T) {
	for identifier, want := range map[string]string{
		"turn":            "turn",
		"Turn":            "turn",
		"turnsEdit":       "turns edit",
		"manyTurns":       "many turns",
		"returned":        "returned",
		"CONN_PLAIN":      "conn plain",
		"hash_place":      "hash place",
		"__kept":          "kept",
		"HTTPServer":      "http server",
		"newHTTP":         "new http",
		"IPv4Addr":        "i pv4 addr",
		"sha256Sum":       "sha256 sum",
		"xlb_client_look": "xlb client look",
		"_":               "",
	} {
		if got := strings.Join(splitName(identifier), " "); got != want {
			t.Errorf("%s: got %q, want %q", identifier, got, want)
		}
	}
	for file, want := range map[string]string{"a/settle.bpf.c": "settle", "a/turn_test.go": "turn", "a/heels_maps.h": "heels maps", "rest.go": "rest"} {
		if got := strings.Join(fileName(file), " "); got != want {
			t.Errorf("file %s: got %q, want %q", file, got, want)
		}
	}
}

func TestGoNamesCountWhereTheyAreDeclared(t *testing.T) {
	src, _, err := readGo("a.go", `package p

import alias "example.com/imported"

const aConst, another = 1, 2

var aVar = func(parameter int) { inner := parameter; _ = inner }

type aType struct {
	field, second int `+"`tag:\"no prose\"`"+`
	nested struct{ deep int }
	alias.Embedded
}

type anInterface interface{ aMethod(argument int) }

func aFunc[T any](x int) (result int) {
	var local = x
	type inFunc struct{ inField int }
	for used := range used.by(local) { called(used) }
label:
	goto label
}

func (receiver *aType) method() {}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := "5 a const; 5 another; 7 a var; 17 a func; 25 method; 9 a type; 10 field; 10 second; 11 nested; 11 deep; 15 an interface; 15 a method; 19 in func; 19 in field"
	if diff := cmp.Diff(want, namesAsText(src)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := proseAsText(src); got != "" {
		t.Errorf("neither imports nor tags are prose: got %q", got)
	}
	if _, _, err := readGo("broken.go", "package"); err == nil {
		t.Error("a file that is not Go is read")
	}
}

func TestCNamesCountWhereTheyAreDeclared(t *testing.T) {
	src := readC(`#include "turn.h"
#define LIMIT 8
#define MACRO(x) ((x) * 2)
enum verdict {
	FIRST = 1, /* comment */
	SECOND,
	LAST
};
struct slot {
	__u64 field;
	struct other *pointer;
	unsigned char array[LIMIT], ignored;
	__u32 bits : 3;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
} a_map SEC(".maps");
static __always_inline int function(struct used *parameter, __u32 number)
{
	int local = parameter->used * product;
	struct other *second = &used;
	used = sizeof used;
	if (used == LIMIT)
		return used;
	called(used, used);
	goto used;
}
`)
	want := "2 limit; 3 macro; 4 verdict; 5 first; 6 second; 7 last; 9 slot; 10 field; 11 pointer; 12 array; 13 bits; 17 a map; 18 function; 18 parameter; 18 number; 20 local; 21 second"
	if diff := cmp.Diff(want, namesAsText(src)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestProse(t *testing.T) {
	for name, c := range map[string]struct {
		read func(string) source
		text string
		want string
	}{
		"Go comment over lines": {goText, "package p\n\n// F is none\n// of us. Those\n//\n// of which.\nfunc F() {}\n", "3 f is none 4 of us . 4 those 6 of which ."},
		"Go strings":            {goText, "package p\n\nvar a, b, c = \"One's \\\"two\\\"\\nthree\", `four\nfive`, 'x'\n", "3 one two three . 3 four 4 five ."},
		"Go code is none":       {goText, "package p\n\nfunc nobody() { nobody() }\n", ""},
		"C comments":            {readC, "int a; /* Nobody\n * asks */ int b; // is\n// told\nint c;\n", "1 nobody 2 asks . 2 is 3 told ."},
		"C strings":             {readC, "#include \"no.h\"\nchar *a = \"/* said\"; int b = '\"'; char *c = \"so\";", "2 said . 2 so ."},
		"Markdown paragraphs":   {readMarkdown, "# Who asks\nis\ntold\n\nof it", "1 who asks 2 is 3 told . 5 of it ."},
		"Markdown fences":       {readMarkdown, "one\n```c\ntwo ``` three\n```\nfour\n~~~\nfive\n", "1 one . 5 four ."},
		"Markdown spans":        {readMarkdown, "is `code\nmore` none, ``a ` b`` two ` three", "1 is . 2 none . 2 two three ."},
		"Markdown links":        {readMarkdown, "see [the page](turn.md#turns), and <b>this</b>", "1 see the page and b this b ."},
		"hyphens":               {readMarkdown, "kept-alive, never kept\n", "1 kept-alive never kept ."},
		"table cells":           {readMarkdown, "| is | none |\n", "1 is . 1 none ."},
	} {
		if got := proseAsText(c.read(c.text)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func goText(text string) source {
	src, _, err := readGo("a.go", text)
	if err != nil {
		panic(err)
	}
	return src
}

// namesAsText is each name behind its line.
func namesAsText(src source) string {
	var all []string
	for _, n := range src.names {
		all = append(all, fmt.Sprintf("%d %s", n.line, strings.Join(n.words, " ")))
	}
	return strings.Join(all, "; ")
}

// proseAsText is the words, with the line in front of the first one of a line or behind a pause, and one pause in a row.
func proseAsText(src source) string {
	var out strings.Builder
	last := term{text: pause}
	for _, w := range src.prose {
		if w.text == pause && last.text == pause {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		if w.text != pause && (w.line != last.line || last.text == pause) {
			fmt.Fprintf(&out, "%d ", w.line)
		}
		out.WriteString(w.text)
		last = w
	}
	return out.String()
}
