// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// TestPathTextKeepsWhatItHadUntilTheNextWrite looks at entries as programs see them: one that is written again has the place for it, and
// what it led to before is still there for those that read it.
func TestPathTextKeepsWhatItHadUntilTheNextWrite(t *testing.T) {
	d := loaded(t)
	table, key := d.Config.PathTexts, maps.PathText{Vhost: 7, Len: 2}
	copy(key.Text[:], "/a")
	list := []maps.Candidates{{First: 1, Count: 1}, {First: 2, Count: 3, Tuple: 4, TupleCount: 5, Automaton: 6, Automata: 7}, {First: 8}}
	for n, c := range list {
		must(t, table.Put(key, c))
		var entry maps.PathRoutes
		must(t, d.objects.PathTextsFirst.Lookup(&key, &entry))
		if entry.Current != uint32(n%2) || entry.Of[n%2] != c || n > 0 && entry.Of[1-n%2] != list[n-1] {
			t.Errorf("write %d: %+v", n, entry)
		}
		if got, found, err := table.Lookup(key); got != c || !found || err != nil {
			t.Errorf("write %d: found %+v, %v, %v", n, got, found, err)
		}
	}
	all := map[maps.PathText]maps.Candidates{}
	must(t, table.Each(func(k maps.PathText, c maps.Candidates) bool { all[k] = c; return true }))
	if len(all) != 1 || all[key] != list[2] {
		t.Errorf("all entries: %+v", all)
	}
	must(t, table.Delete(key))
	if got, found, err := table.Lookup(key); found || err != nil {
		t.Errorf("after it was deleted: %+v, %v, %v", got, found, err)
	}
}

// TestPathIsFoundByTheLongestOfItsBeginnings asks for paths around the lengths that the hash has.
func TestPathIsFoundByTheLongestOfItsBeginnings(t *testing.T) {
	d := loaded(t)
	const number, table, vhost = 3, 5, 7
	long := "/" + strings.Repeat("l", 299)
	texts := []string{"", "/", "/abcdefg", "/abcdefgh", "/abcdefgh\x00", long[:87] + "\x00", long[:88]}
	for i, text := range texts {
		key := maps.PathText{Vhost: vhost, Len: uint32(len(text))}
		copy(key.Text[:], text)
		must(t, d.Config.PathTexts.Put(key, maps.Candidates{First: uint32(i), Count: 1}))
		must(t, d.Config.Routes.Put(uint32(i), maps.Route{First: uint32(i)}))
	}
	must(t, d.Config.VHosts.Put(vhost, 0x0102090a59ff)) // whole paths, and 88, 9, 8, 1 and 0 bytes
	must(t, d.Config.RouteTables.Put(table, maps.RouteTable{DefaultVhost: vhost}))
	must(t, d.Config.Listeners.Put(number, maps.Listener{Table: table, Number: number}))
	for path, want := range map[string]uint32{
		"/": 1, "/a": 1, "/abcdef": 1, "/abcdefg": 2, "/abcdefgi": 2, "/abcdefgh": 4, "/abcdefgh?": 4, "/abcdefghi": 3, "/abcdefgh/": 3,
		long[:86]: 1, long[:87]: 5, long[:88]: 6, long[:89]: 6, long[:250]: 6, long: 6, "/" + long: 1,
	} {
		e, err := d.Explain(number, 1, []byte("GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"))
		must(t, err)
		if e.Verdict != 0 || e.Cluster != want {
			t.Errorf("%s: cluster %d, verdict %s, want %d (%q)", path, e.Cluster, maps.VerdictName(maps.Verdict(e.Verdict)), want, texts[want])
		}
	}
}

// TestPathsAreFoundWhileTheirHashGrows asks all the time for a path that is there, while many are added and the map is exchanged twice.
func TestPathsAreFoundWhileTheirHashGrows(t *testing.T) {
	d := loaded(t)
	const number, table, vhost, paths = 3, 5, 7, 20_000
	keyOf := func(i int) maps.PathText {
		text := fmt.Sprintf("/%08d\x00", i)
		key := maps.PathText{Vhost: vhost, Len: uint32(len(text))}
		copy(key.Text[:], text)
		return key
	}
	routes := [2]uint32{1, 2}
	for _, n := range routes {
		must(t, d.Config.Routes.Put(n, maps.Route{First: n}))
	}
	must(t, d.Config.VHosts.Put(vhost, 0xff)) // whole paths
	must(t, d.Config.RouteTables.Put(table, maps.RouteTable{DefaultVhost: vhost}))
	must(t, d.Config.Listeners.Put(number, maps.Listener{Table: table, Number: number}))
	must(t, d.Config.PathTexts.Put(keyOf(0), maps.Candidates{First: routes[0], Count: 1}))
	ask := func(i int) uint32 {
		e, err := d.Explain(number, 1, fmt.Appendf(nil, "GET /%08d HTTP/1.1\r\nHost: a\r\n\r\n", i))
		if err != nil || e.Verdict != 0 {
			t.Errorf("path %d: verdict %s, %v", i, maps.VerdictName(maps.Verdict(e.Verdict)), err)
		}
		return e.Cluster
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 1; i < paths && err == nil; i++ {
			err = d.Config.PathTexts.Put(keyOf(i), maps.Candidates{First: routes[1], Count: 1})
		}
		done <- err
	}()
	for looks, writing := 0, true; writing && !t.Failed(); looks++ {
		select {
		case err := <-done:
			must(t, err)
			writing = false
			t.Logf("%d look-ups meanwhile", looks)
		default:
		}
		if got := ask(0); got != routes[0] {
			t.Errorf("look-up %d: cluster %d, want %d", looks, got, routes[0])
		}
	}
	for _, i := range []int{1, 4095, 4096, 16383, 16384, paths - 1} {
		if got := ask(i); got != routes[1] {
			t.Errorf("path %d: cluster %d, want %d", i, got, routes[1])
		}
	}
	// Afterwards an entry is written in place as before.
	must(t, d.Config.PathTexts.Put(keyOf(0), maps.Candidates{First: routes[1], Count: 1}))
	if got := ask(0); got != routes[1] {
		t.Errorf("after a write: cluster %d, want %d", got, routes[1])
	}
}
