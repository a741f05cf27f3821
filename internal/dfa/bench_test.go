// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"fmt"
	"testing"
)

// families are kinds of patterns, each as a function of a number.
var families = []struct {
	name    string
	pattern func(i int) string
}{
	{"service", func(i int) string { return fmt.Sprintf(`/api/v[0-9]+/svc%d/[^/]+`, i) }},
	{"tail", func(i int) string { return fmt.Sprintf(`/svc%d/.*`, i) }},
	{"number", func(i int) string { return fmt.Sprintf(`^/users/\d+/orders%d/[0-9a-f-]{36}$`, i) }},
	{"word", func(i int) string { return fmt.Sprintf(`.*foo%d.*`, i) }},
}

func BenchmarkPartition(b *testing.B) {
	for _, family := range families {
		for _, count := range []int{1, 100, 1000, 10000} {
			patterns := make([]string, count)
			for i := range patterns {
				patterns[i] = family.pattern(i)
			}
			b.Run(fmt.Sprintf("%s/%d", family.name, count), func(b *testing.B) {
				b.ReportAllocs()
				var sets []*Set
				var refused []*PatternError
				for b.Loop() {
					sets, refused = Partition(patterns, Default())
				}
				states, bytes := 0, 0
				for _, set := range sets {
					states, bytes = states+set.States(), bytes+set.Bytes()
				}
				b.ReportMetric(float64(len(sets)), "sets")
				b.ReportMetric(float64(len(refused)), "refused")
				b.ReportMetric(float64(states), "states")
				b.ReportMetric(float64(bytes), "tablebytes")
			})
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	patterns := make([]string, 1000)
	for i := range patterns {
		patterns[i] = families[0].pattern(i)
	}
	set, err := Compile(patterns, Default())
	if err != nil {
		b.Fatal(err)
	}
	for _, input := range []string{"/api/v12/svc517/a-resource-of-fifty-bytes-in-this-place", "/other/path/of/someone"} {
		b.Run(fmt.Sprintf("%d_bytes", len(input)), func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				set.Match([]byte(input))
			}
		})
	}
}
