// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const module = "github.com/xlb-project/xlb/"

// layers is the import rule: for each folder of internal/, the folders of
// internal/ that it may import. Folders below one follow its row, and may import
// each other, but for those that orders has rows for. A folder without a row is an
// error: decide where it stands first.
var layers = map[string][]string{
	"ascii":     nil,
	"limits":    nil,
	"plural":    nil,
	"logging":   nil,
	"hangup":    nil, // it is initialised first: see its doc comment
	"crash":     nil,
	"shutdown":  nil,
	"re2":       nil,
	"hashing":   nil,
	"model":     {"ascii", "re2", "hashing", "plural"},
	"poller":    nil,
	"shares":    nil,
	"quota":     nil,
	"usage":     {"quota", "workload"},
	"sockdiag":  nil,
	"upstream":  {"poller", "shares", "workload"},
	"mtls":      {"ascii", "model", "upstream", "files"},
	"chunked":   {"ascii"},
	"head":      {"ascii"},
	"maps":      {"hashing"},
	"memo":      nil,
	"dfa":       {"re2", "memo"},
	"problem":   {"plural"},
	"files":     nil,
	"lpm":       nil,
	"netns":     nil,
	"pod":       nil,
	"nri":       {"limits", "pod"},
	"workload":  {"netns", "pod", "poller", "quota"},
	"merge":     {"model"},
	"views":     {"config", "files", "model", "pod", "problem", "workload"},
	"check":     {"lpm", "netns", "pod"}, // it must run where nothing else can
	"config":    {"ascii", "model", "problem", "files", "plural"},
	"xds":       {"model", "limits", "logging"},
	"dns":       {"model", "limits"},
	"sift":      {"ascii", "re2"},
	"match":     {"ascii", "model", "dfa", "sift"},
	"compile":   {"ascii", "model", "maps", "dfa", "match", "memo", "re2", "hashing"},
	"reconcile": {"compile", "maps", "model", "hashing", "plural", "logging"},
	"datapath":  {"maps", "lpm"},
	"balance":   {"maps", "hashing"},
	"anchor":    {"crash", "maps", "poller", "shares", "sockdiag", "upstream", "limits", "workload", "quota"},
	"pool":      {"maps", "model", "poller", "upstream", "workload", "quota", "usage"},
	"health":    {"model", "maps", "poller", "limits"},
	"guard":     {"maps"},
	"guardctl":  {"check", "guard", "logging", "maps", "reconcile", "shares"},
	"pages":     nil,
	"healthctl": {"health", "logging", "maps", "model", "pages", "pool", "reconcile", "slowpath"},
	"explain":   {"ascii", "head", "model", "maps", "compile", "limits", "plural"},
	"slowpath":  {"ascii", "crash", "head", "model", "chunked", "upstream", "hashing", "shares", "limits", "workload", "quota", "usage"},
	"metrics":   {"maps", "model"},
	"admin":     {"ascii", "maps", "model", "metrics", "explain", "limits", "plural", "logging"},
	"delegate":  {"config", "files", "limits", "problem"},
	"source":    {"admin", "config", "dns", "files", "hashing", "logging", "merge", "metrics", "model", "mtls", "problem", "reconcile", "shutdown", "xds"},
	"heels":     {"problem", "files", "limits", "netns", "plural"}, // a system of its own
	// Parts of the daemon, and the composition root.
	"activate":    {"compile", "generation", "maps", "match", "model", "pool", "reconcile", "shutdown"},
	"dialer":      {"anchor", "generation", "health", "model", "mtls", "shares", "slowpath", "upstream", "workload"},
	"adminserver": {"admin", "model"},
	"listeners":   {"anchor", "logging", "model", "slowpath"},
	"precedence":  nil,
	"privilege":   nil,
	"memory":      nil,
	"generation":  {"anchor", "compile", "match", "model", "pages", "reconcile"},
	"selection":   {"anchor", "balance", "compile", "generation", "maps", "model", "reconcile", "slowpath", "workload"},
	"handback":    {"anchor", "chunked", "crash", "generation", "maps", "model", "pool", "reconcile", "selection", "shares", "slowpath", "upstream", "usage", "workload"},
	"status":      {"activate", "admin", "anchor", "compile", "crash", "datapath", "delegate", "explain", "generation", "guard", "guardctl", "handback", "healthctl", "listeners", "logging", "maps", "metrics", "model", "nri", "pool", "reconcile", "shares", "slowpath", "source", "workload", "quota", "usage"},
	"viewctl":     {"files", "shutdown", "source", "views", "workload"},
	"node":        {anything},
}

// benchLayers is the same for the folders of bench/. The command, bench itself, puts them together.
var benchLayers = map[string][]string{
	"lab":          nil,
	"tools":        nil,
	"plot":         nil,
	"record":       nil,
	"accept":       nil,
	"load":         nil,
	"control":      {"load"},
	"wrk":          {"load"},
	"chain":        {"accept"},
	"queue":        {"accept", "load"},
	"websocket":    {"accept", "load"},
	"cases":        {"lab", "websocket"},
	"machine":      {"tools"},
	"peers":        {"cases", "chain", "lab", "tools"},
	"clients":      {"cases", "lab", "load", "tools", "wrk"},
	"figures":      {"cases", "lab", "load", "peers", "queue", "record"},
	"bed":          {"cases", "chain", "clients", "control", "figures", "lab", "load", "peers", "queue", "tools", "wrk"},
	"report":       {"cases", "figures", "lab", "machine", "peers", "plot", "record"},
	"quote":        nil,
	"heels":        {"lab", "load", "record", "wrk"}, // a system of its own
	"pods":         {"lab", "load", "record"},        // XLB alone
	"neighbours":   {"lab", "load", "record"},
	"podnet":       {"chain", "lab", "peers"}, // pods, and what serves them
	"density":      {"chain", "lab", "load", "peers", "podnet", "record"},
	"interference": {"lab", "load", "peers", "podnet", "record", "wrk"},
	"namespaces":   {"lab", "peers", "podnet", "record", "wrk"},
}

// configLayers is the same for the folders of internal/config/. The package above them puts them together.
var configLayers = map[string][]string{
	"document":  nil,
	"schema":    {"document"},
	"values":    {"document"},
	"headers":   {"values"},
	"clusters":  {"headers", "schema", "values"},
	"routes":    {"headers", "schema", "values"},
	"listeners": {"routes", "schema", "values"},
}

// slowpathLayers is the same for the folders of internal/slowpath/. The package above them serves requests with them.
var slowpathLayers = map[string][]string{
	"buffers":  nil,
	"h1":       {"buffers"},
	"conns":    {"h1"},
	"headers":  {"h1", "reply"},
	"opening":  nil,
	"reply":    {"h1"},
	"policy":   {"h1", "headers", "reply"},
	"tunnel":   {"buffers", "conns"},
	"watchdog": nil,
}

// modelLayers is the same for the folders of internal/model/. The package itself is made of what matcher and
// rewrite hold; topology reads it.
var modelLayers = map[string][]string{
	"matcher":  nil,
	"rewrite":  {"matcher"},
	"topology": nil,
}

// sourceLayers is the same for the folders of internal/source/.
var sourceLayers = map[string][]string{
	"intake":  nil,
	"resolve": nil,
	"secrets": nil,
	"watch":   nil,
}

// compileLayers is the same for the folders of internal/compile/.
var compileLayers = map[string][]string{
	"note":     nil,
	"tables":   nil,
	"routes":   {"note", "tables"},
	"clusters": {"note"},
}

// reconcileLayers is the same for the folders of internal/reconcile/. The package above them orders what they write.
var reconcileLayers = map[string][]string{
	"indices":  nil,
	"writes":   nil,
	"routes":   {"indices", "writes"},
	"clusters": {"indices", "writes"},
}

// mapsLayers is the same for the folders of internal/maps/.
var mapsLayers = map[string][]string{
	"bpfmap": nil,
}

// delegateLayers is the same for the folders of internal/delegate/. The package above them runs what the one makes in the other.
var delegateLayers = map[string][]string{
	"process": nil,
	"twin":    nil,
}

// heelsLayers is the same for the folders of internal/heels/. The package above them, the agent, puts them together.
var heelsLayers = map[string][]string{
	"check":     {"kernel", "pins", "reset", "routes", "settings"},
	"heelstest": nil,
	"kernel":    nil,
	"pins":      {"settings"},
	"reset":     nil,
	"routes":    {"kernel", "settings"},
	"settings":  {"kernel"},
}

// orders are the parents of folders that have rows of their own.
var orders = []order{
	{"bench", "benchLayers", benchLayers},
	{"internal/config", "configLayers", configLayers},
	{"internal/compile", "compileLayers", compileLayers},
	{"internal/maps", "mapsLayers", mapsLayers},
	{"internal/delegate", "delegateLayers", delegateLayers},
	{"internal/heels", "heelsLayers", heelsLayers},
	{"internal/model", "modelLayers", modelLayers},
	{"internal/reconcile", "reconcileLayers", reconcileLayers},
	{"internal/slowpath", "slowpathLayers", slowpathLayers},
	{"internal/source", "sourceLayers", sourceLayers},
}

// order says for each folder of parent which folders of parent it may import. name is that of the rows.
type order struct {
	parent, name string
	rows         map[string][]string
}

// anything in a row of layers allows every folder.
const anything = "*"

// restricted says which folders of internal/ alone may import a foreign module.
var restricted = map[string][]string{
	"github.com/cilium/ebpf":                 {"maps", "datapath", "lpm", "check", "heels"},
	"github.com/envoyproxy/go-control-plane": {"config", "xds"},
	"google.golang.org/grpc":                 {"xds"},
}

// goPackage is a package, or a part of one, and what its non-test files import:
// tests may import what they need.
type goPackage struct {
	ImportPath string
	Imports    []string
}

// violations returns one line for each import of p that the rule forbids.
func violations(p goPackage) []string {
	from, isOurs := strings.CutPrefix(p.ImportPath, module)
	if !isOurs {
		return nil
	}
	layer := layerOf(from)
	if _, known := layers[layer]; layer != "" && !known {
		return []string{fmt.Sprintf("%s: no row in layers (test/imports/rule.go) says what it may import", from)}
	}
	for _, o := range orders {
		if folder := folderOf(o.parent, from); folder != "" && !o.knows(folder) {
			return []string{fmt.Sprintf("%s: no row in %s (test/imports/rule.go) says what it may import", from, o.name)}
		}
	}

	var found []string
	for _, imported := range p.Imports {
		if reason := refusal(from, layer, imported); reason != "" {
			found = append(found, fmt.Sprintf("%s imports %s: %s", from, imported, reason))
		}
	}
	return found
}

// refusal says why the package from, in layer, may not import the package
// imported, or "" when it may.
func refusal(from, layer, imported string) string {
	for foreign, users := range restricted {
		if isWithin(imported, foreign) && !slices.Contains(users, layer) && !isTest(from) {
			return fmt.Sprintf("only %s may", strings.Join(users, ", "))
		}
	}
	to, isOurs := strings.CutPrefix(imported, module)
	if !isOurs {
		return ""
	}
	for _, o := range orders {
		if reason := o.refusal(from, to); reason != "" {
			return reason
		}
	}
	if layer == "" {
		return ""
	}
	target := layerOf(to)
	if target == "" {
		return "internal packages import internal packages only"
	}
	allowed := layers[layer]
	if target == layer || slices.Contains(allowed, target) || slices.Contains(allowed, anything) {
		return ""
	}
	return fmt.Sprintf("%s may import of internal/: %q", layer, allowed)
}

// knows says whether a folder of parent has a row.
func (o order) knows(folder string) bool {
	_, known := o.rows[folder]
	return known
}

// refusal says why the package from may not import the package to by these rows, or "" when it may or they are not both below parent.
func (o order) refusal(from, to string) string {
	user, used := folderOf(o.parent, from), folderOf(o.parent, to)
	if user == "" || used == "" || user == used || slices.Contains(o.rows[user], used) {
		return ""
	}
	return fmt.Sprintf("%s may import of %s/: %q", user, o.parent, o.rows[user])
}

// layerOf returns the folder of internal/ that holds the package, "" when it is not there.
func layerOf(pkg string) string { return folderOf("internal", pkg) }

// folderOf returns the folder of parent that holds the package, "" when it is not there.
func folderOf(parent, pkg string) string {
	below, isThere := strings.CutPrefix(pkg, parent+"/")
	if !isThere {
		return ""
	}
	folder, _, _ := strings.Cut(below, "/")
	return folder
}

// isTest says whether the package exists for tests and measurements only.
func isTest(pkg string) bool {
	return isWithin(pkg, "test") || isWithin(pkg, "bench") || strings.HasSuffix(path.Base(pkg), "test")
}

func isWithin(pkg, parent string) bool {
	return pkg == parent || strings.HasPrefix(pkg, parent+"/")
}
