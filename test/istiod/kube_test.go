// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

type object = map[string]any

// emptyKubernetes answers as an API server that has nothing: istiod does not start without one, although it has its configuration from files.
func emptyKubernetes(t *testing.T) (kubeconfig string) {
	t.Helper()
	return startEmptyKubernetes(t, httptest.NewUnstartedServer(http.HandlerFunc(serveNothing)))
}

// emptyKubernetesIn is emptyKubernetes inside a place.
func emptyKubernetesIn(t *testing.T, place *harness.Place) (kubeconfig string) {
	t.Helper()
	file, _ := place.Listener(t)
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(serveNothing))
	_ = server.Listener.Close()
	server.Listener = listener
	return startEmptyKubernetes(t, server)
}

func startEmptyKubernetes(t *testing.T, server *httptest.Server) (kubeconfig string) {
	t.Helper()
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return writeKubeconfig(t, object{"server": server.URL}, object{})
}

// writeKubeconfig makes a file by which clients find a server.
func writeKubeconfig(t *testing.T, cluster, user object) string {
	t.Helper()
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{object{"name": "c", "cluster": cluster}},
		"users":    []any{object{"name": "u", "user": user}},
		"contexts": []any{object{"name": "c", "context": object{"cluster": "c", "user": "u"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// apiGroups are the groups and resources that the server says it has.
var apiGroups = map[string]map[string]string{
	"/api/v1": {
		"namespaces": "Namespace", "services": "Service", "pods": "Pod", "nodes": "Node", "configmaps": "ConfigMap", "secrets": "Secret",
		"endpoints": "Endpoints", "serviceaccounts": "ServiceAccount",
	},
	"/apis/discovery.k8s.io/v1":  {"endpointslices": "EndpointSlice"},
	"/apis/networking.k8s.io/v1": {"ingresses": "Ingress", "ingressclasses": "IngressClass"},
	"/apis/admissionregistration.k8s.io/v1": {
		"mutatingwebhookconfigurations": "MutatingWebhookConfiguration", "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
	},
}

func serveNothing(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == "/version":
		reply(w, http.StatusOK, object{"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
	case path == "/api":
		reply(w, http.StatusOK, object{"kind": "APIVersions", "versions": []string{"v1"}})
	case path == "/apis":
		reply(w, http.StatusOK, object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{object{
			"name": "discovery.k8s.io", "versions": []any{object{"groupVersion": "discovery.k8s.io/v1", "version": "v1"}},
			"preferredVersion": object{"groupVersion": "discovery.k8s.io/v1", "version": "v1"},
		}}})
	case apiGroups[path] != nil:
		reply(w, http.StatusOK, resourceList(path))
	case path == "/apis/authentication.k8s.io/v1/tokenreviews":
		review(w, r)
	case r.Method != http.MethodGet:
		notFound(w)
	case r.URL.Query().Get("watch") != "":
		watchNothing(w, r)
	default:
		listNothing(w, path)
	}
}

// tokenOf is the token of a service account of the namespace default, and adminToken one of who may ask istiod about its clients.
func tokenOf(account string) string { return "system:serviceaccount:default:" + account }

const adminToken = "system:serviceaccount:istio-system:default"

var anyToken = regexp.MustCompile(`system:serviceaccount:(default|istio-system):[a-z]+`)

// review says of every token that it is what it says it is. The token is found in the body whatever form that has.
func review(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // istiod has gone
	}
	reply(w, http.StatusCreated, object{
		"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
		"status": object{"authenticated": true, "audiences": []string{"istio-ca"}, "user": object{
			"username": string(anyToken.Find(body)), "groups": []string{"system:serviceaccounts", "system:authenticated"},
		}},
	})
}

func resourceList(path string) object {
	resources := []any{}
	for name, kind := range apiGroups[path] {
		resources = append(resources, object{"name": name, "kind": kind, "namespaced": kind != "Namespace" && kind != "Node", "verbs": []string{"get", "list", "watch"}})
	}
	return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": versionOf(path), "resources": resources}
}

// versionOf is the apiVersion of what has that path.
func versionOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if parts[0] == "api" {
		return parts[1]
	}
	return strings.Join(parts[1:3], "/")
}

// watchNothing never has anything to tell. Lists by way of a watch it does not know, and clients then list.
func watchNothing(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		reply(w, http.StatusBadRequest, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "BadRequest", "code": http.StatusBadRequest})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// listNothing answers a list; objects by name are not there.
func listNothing(w http.ResponseWriter, path string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for prefix, group := range apiGroups {
		if !strings.HasPrefix(path, prefix+"/") {
			continue
		}
		if kind := group[parts[len(parts)-1]]; kind != "" {
			reply(w, http.StatusOK, object{"kind": kind + "List", "apiVersion": versionOf(path), "metadata": object{"resourceVersion": "1"}, "items": []any{}})
			return
		}
	}
	if len(parts) == 4 && parts[0] == "apis" {
		reply(w, http.StatusOK, object{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": object{"resourceVersion": "1"}, "items": []any{}})
		return
	}
	notFound(w)
}

func notFound(w http.ResponseWriter) {
	reply(w, http.StatusNotFound, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound})
}

func reply(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client sees what is missing
}
