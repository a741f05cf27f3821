// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// world is what a random server has, for all its streams.
type world struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	mu      sync.Mutex
	random  *rand.Rand
	version [kinds]int
	// holds are contents by name, refers what roots refer to.
	holds  [kinds]map[string]int
	refers [kinds]map[string][]string
	ending bool // no more faults
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7))}
	for _, k := range every {
		w.holds[k], w.refers[k] = map[string]int{}, map[string][]string{}
	}
	w.mutate(true)
	return w
}

func (w *world) below(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// mutate changes some of the world. What may be bad is good in the end.
func (w *world) mutate(more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = !more
	for _, k := range every {
		w.version[k]++
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			content, known := w.holds[k][name]
			switch {
			case more && known && k.isRoot() && w.random.IntN(4) == 0:
				delete(w.holds[k], name)
			case content < 0 || !known && !k.isRoot() || w.random.IntN(3) == 0:
				w.holds[k][name] = w.random.IntN(1000)
				if more && known && w.random.IntN(5) == 0 {
					w.holds[k][name] = -1 - w.random.IntN(1000)
				}
				w.refers[k][name] = nil
				for _, child := range []string{"a", "b", "c", "d", "e"} {
					if k.isRoot() && w.random.IntN(3) == 0 && (k == Listeners || len(w.refers[k][name]) == 0) {
						w.refers[k][name] = append(w.refers[k][name], child)
					}
				}
			}
		}
	}
}

// make builds a resource. The lock is held.
func (w *world) make(kind Kind, name string) proto.Message {
	content := w.holds[kind][name]
	switch kind {
	case Clusters:
		if len(w.refers[kind][name]) == 0 {
			return static(name, content)
		}
		return cluster(name, content, w.refers[kind][name]...)
	case Assignments:
		return assignment(name, content)
	case Listeners:
		return listener(name, content, w.refers[kind][name]...)
	default:
		return routes(name, content)
	}
}

// expected is the state in the end.
func (w *world) expected() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, k := range every {
		names := map[string]bool{}
		if k.isRoot() {
			for name := range w.holds[k] {
				names[name] = true
			}
		} else {
			for root := range w.holds[k-1] {
				for _, name := range w.refers[k-1][root] {
					names[name] = true
				}
			}
		}
		line := k.String()
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if names[name] {
				line += fmt.Sprintf(" %s=%d", name, w.holds[k][name])
			}
		}
		if len(names) > 0 {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}

// teller is one stream of the world.
type teller struct {
	*world
	delta bool
	// asked: there was a request; wanted are names subscribed to; sent is what was sent of them.
	asked  [kinds]bool
	wanted [kinds]map[string]bool
	sent   [kinds]map[string]string
	nonce  [kinds]string
	serial int
}

func (w *world) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return w.tell(false, func() (ask, error) {
		m, err := stream.Recv()
		return ask{typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), names: m.GetResourceNames()}, err
	}, stream.SendMsg, stream.Context().Done())
}

func (w *world) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return w.tell(true, func() (ask, error) {
		m, err := stream.Recv()
		return ask{
			typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), known: m.GetInitialResourceVersions(),
			subscribe: m.GetResourceNamesSubscribe(), unsubscribe: m.GetResourceNamesUnsubscribe(),
		}, err
	}, stream.SendMsg, stream.Context().Done())
}

func (w *world) tell(delta bool, receive func() (ask, error), send func(any) error, done <-chan struct{}) error {
	s := &teller{world: w, delta: delta}
	for _, k := range every {
		s.wanted[k], s.sent[k] = map[string]bool{}, map[string]string{}
	}
	asks := make(chan ask)
	go func() {
		for {
			a, err := receive()
			if err != nil {
				return
			}
			select {
			case asks <- a:
			case <-done:
				return
			}
		}
	}()
	for {
		select {
		case a := <-asks:
			s.hear(a)
		case <-done:
			return nil
		case <-time.After(time.Duration(w.below(300)) * time.Microsecond):
			m, end := s.say()
			if end {
				return nil
			}
			if m != nil && send(m) != nil {
				return nil
			}
		}
	}
}

func (s *teller) hear(a ask) {
	k, _ := kindOf(a.typeURL)
	if !s.delta {
		if a.nonce != s.nonce[k] {
			return // stale
		}
		wanted := map[string]bool{}
		for _, name := range a.names {
			if wanted[name] = true; !s.wanted[k][name] {
				delete(s.sent[k], name)
			}
		}
		s.asked[k], s.wanted[k] = true, wanted
		return
	}
	s.asked[k] = true
	for name, version := range a.known {
		s.sent[k][name] = version
	}
	for _, name := range a.subscribe {
		if len(a.known) == 0 || a.known[name] == "" {
			delete(s.sent[k], name)
		}
		s.wanted[k][name] = true
	}
	for _, name := range a.unsubscribe {
		delete(s.wanted[k], name)
		delete(s.sent[k], name)
	}
}

// say makes a response of a random part of what is left to say, if there is any.
func (s *teller) say() (m proto.Message, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ending && s.random.IntN(60) == 0 {
		return nil, true
	}
	k := every[s.random.IntN(int(kinds))]
	if !s.asked[k] {
		return nil, false
	}
	var names, removed []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		version := fmt.Sprint(s.holds[k][name], s.refers[k][name])
		_, exists := s.holds[k][name]
		switch {
		case !exists:
			if _, was := s.sent[k][name]; was && s.delta {
				removed = append(removed, name)
				delete(s.sent[k], name)
			}
		case !k.isRoot() && !s.wanted[k][name]:
			if !s.ending && s.random.IntN(20) == 0 { // nobody asked for it
				names = append(names, name)
			}
		case s.sent[k][name] != version && (s.ending || s.random.IntN(2) == 0) || !s.ending && s.random.IntN(20) == 0 || !s.delta && k.isRoot():
			names = append(names, name)
		}
	}
	news := len(removed) > 0
	for _, name := range names {
		version := fmt.Sprint(s.holds[k][name], s.refers[k][name])
		news = news || s.sent[k][name] != version
		s.sent[k][name] = version
	}
	if !s.delta && k.isRoot() {
		now := fmt.Sprint(names, s.version[k])
		news = s.sent[k]["*"] != now
		s.sent[k]["*"] = now
	}
	if !news && (s.ending || s.random.IntN(10) > 0) && s.sent[k]["*"+k.String()] != "" {
		return nil, false
	}
	s.sent[k]["*"+k.String()] = "once"
	return s.compose(k, names, removed), false
}

func (s *teller) compose(k Kind, names, removed []string) proto.Message {
	s.serial++
	s.nonce[k] = fmt.Sprint(s.serial)
	s.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if s.delta {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: k.TypeURL(), Nonce: s.nonce[k], RemovedResources: slices.Clone(removed)}
		for _, name := range names {
			m.Resources = append(m.Resources, named(s.make(k, name), fmt.Sprint(s.holds[k][name], s.refers[k][name]), 0))
		}
		return m
	}
	m := &discoveryv3.DiscoveryResponse{TypeUrl: k.TypeURL(), Nonce: s.nonce[k], VersionInfo: fmt.Sprint(s.version[k])}
	for _, name := range names {
		m.Resources = append(m.Resources, packed(s.make(k, name)))
	}
	return m
}
