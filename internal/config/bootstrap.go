// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"reflect"
	"slices"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// Bootstrap is a checked bootstrap file. It has a static part, and may say where more resources come from.
type Bootstrap struct {
	// Dynamic is nil where the file is all there is.
	Dynamic *Dynamic

	// whole is the configuration where Dynamic is nil.
	whole   *model.Config
	name    string
	message *bootstrapv3.Bootstrap
	options options
	notes   []Note
	// static are the names of what is in the file, by kind.
	static [kinds]map[string]bool
	bodies bodies
	// cache are clusters and listeners of the last configuration by their paths, clusters the names of all of its clusters.
	cache    map[string]cachedResource
	clusters map[string]bool
	// listening are the names of the listeners of the last configuration.
	listening map[string]bool
	// last is the last configuration, or nil.
	last *assembled
	// digest is that of the text.
	digest [sha256.Size]byte
	// files are those that the last configuration needs.
	files map[File]map[string]bool
}

// Dynamic says where resources come from that are not in the file (Bootstrap.dynamic_resources).
type Dynamic struct {
	// Servers of the control plane in the order of the file; empty: resources come from files only.
	Servers []Server
	// Delta asks for changes in place of whole states (DELTA_GRPC).
	Delta bool
	// Node tells the control plane who asks.
	Node *corev3.Node
	// FetchTimeout is how long the daemon waits for what it does not have at its start; 0 is without end (initial_fetch_timeout).
	FetchTimeout time.Duration

	clusters, listeners source
	// names are what static clusters and listeners have from the servers.
	names [kinds][]string
}

// Server is one server of a control plane.
type Server struct {
	// Address is host:port; the host may be a name.
	Address string
	// Authority is what the server is asked as, in the pseudo-header :authority.
	Authority string
	// KeepAlive and KeepAliveTimeout are those of HTTP/2's PING (connection_keepalive); 0: there is none.
	KeepAlive, KeepAliveTimeout time.Duration

	security *tlsSettings
}

// TLSConfig secures connections to the server; nil: they are plaintext.
func (s Server) TLSConfig() *tls.Config { return s.security.config() }

// LoadBootstrap is ParseBootstrap of the file at path.
func LoadBootstrap(path string, change ...Option) (*Bootstrap, error) {
	data, err := ReadText(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w; name a readable Envoy v3 bootstrap", err)
	}
	return ParseBootstrap(path, data, change...)
}

// ParseBootstrap checks an Envoy v3 bootstrap, as Parse does, and keeps it to be joined with dynamic resources.
func ParseBootstrap(name string, data []byte, change ...Option) (*Bootstrap, error) {
	b, cfg, err := parse(name, data, change...)
	if err == nil && b.Dynamic == nil {
		b.whole = cfg
	}
	if err == nil {
		b.digest = sha256.Sum256(data)
	}
	return b, err
}

// Digest is SHA-256 of the text.
func (b *Bootstrap) Digest() [sha256.Size]byte { return b.digest }

// Whole is the configuration of a file that is all there is; nil where Dynamic is not. To assemble it would translate the file once more.
func (b *Bootstrap) Whole() *model.Config { return b.whole }

// parse returns the static part too.
func parse(name string, data []byte, change ...Option) (*Bootstrap, *model.Config, error) {
	if len(data) > maxSize {
		return nil, nil, fmt.Errorf("%s: larger than %d MiB, the limit of a configuration; split it or remove what is unused",
			name, maxSize>>20)
	}
	b := &Bootstrap{name: name}
	for _, c := range change {
		c(&b.options)
	}
	p := problem.NewList()
	if b.message = decode(p, name, data, EnvoyHeaders(b.options.schema.EnvoyHeaders)); b.message == nil {
		return nil, nil, p.Err(name)
	}
	b.options.nameNode(b.message)
	b.notes = schema.CheckBootstrap(p, b.message, b.options.schema)
	b.noteStatic()
	t := newTranslator(p, b)
	b.Dynamic = t.dynamic(b.message)
	cfg := &model.Config{Clusters: t.staticClusters()}
	t.static(cfg)
	t.finish(cfg)
	b.files = t.files
	if b.Dynamic == nil && len(b.files) > 0 {
		b.Dynamic = &Dynamic{FetchTimeout: values.FetchTimeout}
	}
	for kind, names := range t.asked {
		slices.Sort(names)
		if b.Dynamic != nil {
			b.Dynamic.names[kind] = slices.Compact(names)
		}
	}
	if err := p.Err(name); err != nil {
		return nil, nil, err
	}
	return b, cfg, nil
}

func (b *Bootstrap) noteStatic() {
	for kind := range b.static {
		b.static[kind] = map[string]bool{}
	}
	for _, c := range b.message.GetStaticResources().GetClusters() {
		b.static[Clusters][c.GetName()] = true
	}
	for _, l := range b.message.GetStaticResources().GetListeners() {
		b.static[Listeners][l.GetName()] = true
	}
}

// IsStatic reports whether the file has a resource of that kind and name. As in Envoy it stays: one from elsewhere is passed over.
func (b *Bootstrap) IsStatic(kind Kind, name string) bool { return b.static[kind][name] }

// SameDynamic reports whether two bootstraps ask the same for resources, of the same.
func (b *Bootstrap) SameDynamic(other *Bootstrap) bool {
	control := schema.ControlCluster(b.message)
	return proto.Equal(b.message.GetDynamicResources(), other.message.GetDynamicResources()) &&
		proto.Equal(b.message.GetNode(), other.message.GetNode()) &&
		proto.Equal(schema.ClusterNamed(b.message, control), schema.ClusterNamed(other.message, control)) &&
		reflect.DeepEqual(b.Dynamic.names, other.Dynamic.names)
}

// Asker is the node that identifies this daemon to a server of secrets. It is immutable.
type Asker = corev3.Node

// Asker tells a server who asks for secrets.
func (b *Bootstrap) Asker() *Asker { return nodeOf(b.message.GetNode()) }

// nodeOf adds the name of this program.
func nodeOf(in *corev3.Node) *corev3.Node {
	out, ok := proto.Clone(in).(*corev3.Node)
	if !ok || in == nil {
		return &corev3.Node{UserAgentName: userAgent}
	}
	if out.GetUserAgentName() == "" {
		out.UserAgentName = userAgent
	}
	return out
}

// userAgent is the name that a control plane sees.
const userAgent = "xlb"

// Dump is what the bootstrap says of this node and of where resources come from, for the admin API. It has neither static
// resources nor secrets. version is that of this program.
func (b *Bootstrap) Dump(version string) *bootstrapv3.Bootstrap {
	in := b.message
	out := &bootstrapv3.Bootstrap{
		Node: nodeOf(in.GetNode()), DynamicResources: in.GetDynamicResources(), ClusterManager: in.GetClusterManager(), Admin: in.GetAdmin(),
	}
	if out.Node.GetUserAgentVersionType() == nil {
		out.Node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: buildVersion(version)}
	}
	return out
}

// buildVersion has the numbers of a version like v1.2.3, or zeros, and beside them the whole text.
func buildVersion(version string) *corev3.BuildVersion {
	v := &typev3.SemanticVersion{}
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &v.MajorNumber, &v.MinorNumber, &v.Patch); err != nil {
		v = &typev3.SemanticVersion{}
	}
	return &corev3.BuildVersion{Version: v, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"build.label": structpb.NewStringValue(version)}}}
}

// Control is the control plane's cluster without what secures it, nil where there is none.
func (b *Bootstrap) Control() *clusterv3.Cluster {
	c, ok := proto.Clone(schema.ClusterNamed(b.message, schema.ControlCluster(b.message))).(*clusterv3.Cluster)
	if !ok || c == nil || schema.ControlCluster(b.message) == "" {
		return nil
	}
	c.TransportSocket, c.TransportSocketMatches = nil, nil
	return c
}

// decode reads a bootstrap. Values that cannot be decoded are reported and left out, so that the rest of the file is still checked. It returns nil
// when nothing could be read.
func decode(p *problem.List, name string, data []byte, change ...Option) *bootstrapv3.Bootstrap {
	root := document.Read(p, name, data, document.ExpectBootstrap)
	if root == nil {
		return nil
	}
	bootstrap := &bootstrapv3.Bootstrap{}
	document.Respell(bootstrap.ProtoReflect().Descriptor(), root)
	err := document.Decode(root, bootstrap)
	if err == nil {
		return bootstrap
	}

	// protojson stops at the first problem and tells a position in the JSON
	// text. Look for the reasons in the tree, where they have paths.
	var o options
	for _, c := range change {
		c(&o)
	}
	schema.ExplainBootstrap(p, root, o.schema)
	bootstrap = &bootstrapv3.Bootstrap{}
	if document.Decode(root, bootstrap) != nil || len(p.All()) == 0 {
		p.Add("", "%s", document.Reason(err))
		return nil
	}
	return bootstrap
}

// maxConnections is what the overload manager says of connections, 0 for nothing. It knows no other limit here.
func (t *translator) maxConnections(in *bootstrapv3.Bootstrap) (limit uint64) {
	const path = "overload_manager.resource_monitors"
	for i, m := range in.GetOverloadManager().GetResourceMonitors() {
		if limit != 0 {
			t.p.Add(problem.At(path, i), "a second monitor of connections; keep one")
			continue
		}
		config := &downstreamv3.DownstreamConnectionsConfig{}
		if t.Unpack(m.GetTypedConfig(), config, problem.At(path, i)+".typed_config", "DownstreamConnectionsConfig") {
			// 0 and less violate Envoy's constraint, reported as such.
			limit = uint64(max(config.GetMaxActiveDownstreamConnections(), 0))
		}
	}
	return limit
}
