// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// File holds resources of one kind, in the form of a DiscoveryResponse.
type File struct {
	Kind Kind
	// Path of the file.
	Path string
	// Directory whose changes are those of the file, too; may be empty (watched_directory).
	Directory string
}

// compare orders files by kind and path.
func (f File) compare(other File) int {
	return cmp.Or(cmp.Compare(f.Kind, other.Kind), cmp.Compare(f.Path, other.Path), cmp.Compare(f.Directory, other.Directory))
}

// source says where resources come from; the zero value is nowhere.
type source struct {
	ads  bool
	file File
}

// source translates a ConfigSource for resources of one kind.
func (t *translator) source(in *corev3.ConfigSource, kind Kind, path string) source {
	if in == nil {
		return source{}
	}
	switch s := in.GetConfigSourceSpecifier().(type) {
	case *corev3.ConfigSource_Ads:
		if !t.ads {
			t.p.Add(path+".ads", "there is no dynamic_resources.ads_config, which says whom to ask; add it")
		}
		return source{ads: true}
	case *corev3.ConfigSource_PathConfigSource:
		file := s.PathConfigSource
		if file.GetPath() == "" {
			t.p.Add(path+".path_config_source.path", "must not be empty; name a file")
		}
		return source{file: File{Kind: kind, Path: file.GetPath(), Directory: file.GetWatchedDirectory().GetPath()}}
	default:
		t.p.Add(path, "needs ads or path_config_source")
		return source{}
	}
}

// dynamic translates what a bootstrap says of resources that are not in it; nil where it says nothing.
func (t *translator) dynamic(in *bootstrapv3.Bootstrap) *Dynamic {
	d := in.GetDynamicResources()
	if d == nil {
		return nil
	}
	const path = "dynamic_resources"
	out := &Dynamic{FetchTimeout: values.FetchTimeout}
	ads := d.GetAdsConfig()
	if t.ads = ads != nil; t.ads {
		t.adsConfig(out, in, ads, path+".ads_config")
	}
	out.clusters = t.source(d.GetCdsConfig(), Clusters, path+".cds_config")
	out.listeners = t.source(d.GetLdsConfig(), Listeners, path+".lds_config")
	for _, s := range []*corev3.ConfigSource{d.GetCdsConfig(), d.GetLdsConfig()} {
		if limit := s.GetInitialFetchTimeout(); limit != nil {
			out.FetchTimeout = t.Duration(limit, 0, path)
		}
	}
	if ads == nil && d.GetCdsConfig() == nil && d.GetLdsConfig() == nil {
		t.p.Add(path, "asks for nothing; add cds_config or lds_config")
	}
	return out
}

func (t *translator) adsConfig(out *Dynamic, in *bootstrapv3.Bootstrap, ads *corev3.ApiConfigSource, path string) {
	out.Delta = ads.GetApiType() == corev3.ApiConfigSource_DELTA_GRPC
	if in.GetNode().GetId() == "" || in.GetNode().GetCluster() == "" {
		t.p.Add("node", "needs id and cluster, as in Envoy: a control plane is told who asks; %s", t.whereNodeIsNamed())
	}
	if in.GetNode().GetMetadata().GetFields()["GENERATOR"].GetStringValue() == "grpc" {
		t.p.Add("node.metadata.GENERATOR", "istiod's view for gRPC clients has clusters for those alone who name them, and does not say which TLS an endpoint expects; remove it, and let a Sidecar resource say what is sent")
	}
	out.Node = nodeOf(in.GetNode())
	services := ads.GetGrpcServices()
	if len(services) != 1 || services[0].GetEnvoyGrpc() == nil {
		t.p.Add(path+".grpc_services", "needs one entry with envoy_grpc; list further servers as endpoints of its cluster")
		return
	}
	grpc := services[0].GetEnvoyGrpc()
	for i, c := range in.GetStaticResources().GetClusters() {
		if c.GetName() == grpc.GetClusterName() {
			out.Servers = t.servers(c, grpc.GetAuthority(), problem.At("static_resources.clusters", i))
			return
		}
	}
	t.p.Add(path+".grpc_services[0].envoy_grpc.cluster_name", "no cluster %q in static_resources.clusters; add it or correct the name", grpc.GetClusterName())
}

// whereNodeIsNamed is what to do where node is not there, or only a part of it.
func (t *translator) whereNodeIsNamed() string {
	if t.options.schema.View {
		return "add them here: a view's node is that of its own bootstrap, whatever the daemon's is (--service-node)"
	}
	return "add them"
}

// Subscription is where a cluster has its endpoints from, or a listener its routes, which are not with it.
type Subscription struct {
	// Cluster is the name of the cluster; of a listener it is empty, and Prefix its stat_prefix.
	Cluster, Prefix string
	// Name is what is asked for, File whom: one without a path is the control plane.
	Name string
	File File
}

// Subscriptions lists those of the last configuration. As in Envoy two listeners with one stat_prefix that have one table are one. Not safe for
// concurrent use.
func (b *Bootstrap) Subscriptions() []Subscription {
	var list []Subscription
	seen := map[Subscription]bool{}
	add := func(s Subscription) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	for _, k := range b.cache {
		for _, u := range k.uses {
			if u.kind == Assignments && k.cluster != nil {
				add(Subscription{Cluster: k.cluster.Name, Name: u.name, File: u.from.file})
			}
			if u.kind == Routes {
				k.addTables(u, add)
			}
		}
	}
	return list
}

// addTables adds those of the listeners that have that table.
func (k *cachedResource) addTables(u lookedUp, add func(Subscription)) {
	for _, l := range k.listeners {
		if hasTable(l, u.name) {
			add(Subscription{Prefix: l.StatPrefix, Name: u.name, File: u.from.file})
		}
	}
}

func hasTable(l *model.Listener, name string) bool { return l.TCP == nil && l.Routes.Name == name }
