// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/plural"
)

// defaultDirectBody is Envoy's bound on bodies of direct_response, in bytes
// (RouteConfiguration.max_direct_response_body_size_bytes).
const defaultDirectBody = 4096

// directBodyLimit is the bound of one route table.
func directBodyLimit(rc *routev3.RouteConfiguration) uint32 {
	if limit := rc.GetMaxDirectResponseBodySizeBytes(); limit != nil {
		return limit.GetValue()
	}
	return defaultDirectBody
}

func (t *translator) directResponse(in *routev3.DirectResponseAction, limit uint32, path string) *model.DirectResponse {
	out := &model.DirectResponse{Status: int(in.GetStatus()), Body: t.dataSource(in.GetBody(), path+".body")}
	switch {
	case uint64(len(out.Body)) > uint64(limit):
		t.p.Add(path+".body", "%s, more than %d; shorten it, or raise max_direct_response_body_size_bytes", plural.Of(len(out.Body), "byte"), limit)
	case out.Body != "" && (out.Status == http.StatusNoContent || out.Status == http.StatusNotModified):
		t.p.Add(path+".body", "a response of status %d has no body; remove one of the two", out.Status)
	}
	return out
}

// dataSource reads a text, once, as Envoy does.
func (t *translator) dataSource(in *corev3.DataSource, path string) string {
	switch s := in.GetSpecifier().(type) {
	case *corev3.DataSource_InlineString:
		return s.InlineString
	case *corev3.DataSource_InlineBytes:
		return string(s.InlineBytes)
	case *corev3.DataSource_Filename:
		text, err := files.Read(s.Filename, files.Text)
		if err != nil {
			t.p.Add(path+".filename", "%v; name a readable file", err)
		}
		return string(text)
	case *corev3.DataSource_EnvironmentVariable:
		text, ok := os.LookupEnv(s.EnvironmentVariable)
		if !ok {
			t.p.Add(path+".environment_variable", "%q is not set; set it, or use inline_string", s.EnvironmentVariable)
		}
		return text
	}
	return ""
}

var redirectStatus = map[routev3.RedirectAction_RedirectResponseCode]int{
	routev3.RedirectAction_MOVED_PERMANENTLY:  http.StatusMovedPermanently,
	routev3.RedirectAction_FOUND:              http.StatusFound,
	routev3.RedirectAction_SEE_OTHER:          http.StatusSeeOther,
	routev3.RedirectAction_TEMPORARY_REDIRECT: http.StatusTemporaryRedirect,
	routev3.RedirectAction_PERMANENT_REDIRECT: http.StatusPermanentRedirect,
}

func (t *translator) redirect(in *routev3.RedirectAction, path string) *model.Redirect {
	out := &model.Redirect{
		Status: redirectStatus[in.GetResponseCode()], Scheme: in.GetSchemeRedirect(), Host: in.GetHostRedirect(),
		Path: in.GetPathRedirect(), StripQuery: in.GetStripQuery(),
		Rewrite: rewrite.PathRewrite{
			Prefix: in.GetPrefixRewrite(),
			Regex:  t.substitution(in.GetRegexRewrite(), path+".regex_rewrite"),
		},
	}
	if out.Scheme != "" {
		t.scheme(out.Scheme, path+".scheme_redirect")
	}
	if in.GetHttpsRedirect() {
		out.Scheme = "https"
	}
	if in.GetPortRedirect() > math.MaxUint16 {
		t.p.Add(path+".port_redirect", "%d is no port; write 1 to %d", in.GetPortRedirect(), math.MaxUint16)
	}
	out.Port = uint16(in.GetPortRedirect())
	return out
}

// schemePattern is RFC 3986, section 3.1.
var schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// executed are schemes whose addresses a browser executes, or shows as a page of its own: a client's path would be a program.
var executed = []string{"javascript", "vbscript", "data"}

// scheme looks at what is written in front of a location as it is. Envoy takes anything.
func (t *translator) scheme(scheme, path string) {
	switch {
	case !schemePattern.MatchString(scheme):
		t.p.Add(path, "%q is no scheme: write a letter, and behind it letters, digits, +, - and . (RFC 3986, section 3.1), such as https", scheme)
	case slices.Contains(executed, ascii.Lower(scheme)):
		t.p.Add(path, "%q is a scheme whose addresses browsers execute; write https, or another that names a place", scheme)
	}
}

func (t *translator) substitution(in *matcherv3.RegexMatchAndSubstitute, path string) *matcher.Substitution {
	if in == nil || t.Regex(in.GetPattern(), path+".pattern") == nil {
		return nil
	}
	out, err := matcher.NewSubstitution(in.GetPattern().GetRegex(), in.GetSubstitution())
	if err != nil {
		t.p.Add(path+".substitution", "%s", strings.TrimPrefix(err.Error(), "substitution "))
	}
	return out
}
