package envoyauthz

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
)

// Asker decides. *forwardauth.Gates is one.
type Asker interface {
	Ask(ctx context.Context, q forwardauth.Question) (forwardauth.Answer, error)
	// ClientBehind returns the address of the client of a peer, which may be a proxy in front of Envoy.
	ClientBehind(peer netip.Addr, forwardedFor []string) netip.Addr
}

// service answers the checks of Envoy by the decisions of gates.
type service struct {
	authv3.UnimplementedAuthorizationServer

	gates Asker
	log   *zap.Logger
}

// Check serves envoy.service.auth.v3.Authorization/Check. A request that nothing can be decided about is UNAVAILABLE,
// which Envoy refuses unless failure_mode_allow is set. (docs/decisions/gateway.md#envoy)
func (s *service) Check(ctx context.Context, in *authv3.CheckRequest) (out *authv3.CheckResponse, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic", zap.Any("panic", v), zap.Stack("stack"))
			out, err = nil, grpcstatus.Error(codes.Internal, "internal error")
		}
	}()
	q, err := question(in.GetAttributes())
	if err == nil {
		peer := q.Client
		q.Client = s.gates.ClientBehind(peer, q.Header["X-Forwarded-For"])
		q.Certified = q.Client == peer // the certificate of a proxy in front of Envoy is not that of its client
		var a forwardauth.Answer
		if a, err = s.gates.Ask(ctx, q); err == nil {
			return answer(&a, q.Header)
		}
	}
	if bad := (*forwardauth.Malformed)(nil); errors.As(err, &bad) {
		s.log.Info("check refused", zap.String("error", bad.Reason))
		return denied(codes.InvalidArgument, http.StatusBadRequest, http.Header{"Content-Type": {"application/json"}}, explain(bad.Reason)), nil
	}
	s.log.Error("nothing decided", zap.Error(err))
	return nil, errUnavailable
}

// errUnavailable is the answer when nothing could be decided. It never lets a request in by itself.
var errUnavailable = grpcstatus.Error(codes.Unavailable, "try again later")

func explain(reason string) []byte {
	b, _ := json.Marshal(map[string]string{"error": "invalid_request", "error_description": reason}) // of two texts: cannot fail
	return b
}

func malformed(reason string) error { return &forwardauth.Malformed{Reason: reason} }

// question reads what Envoy asks. Method, path, host and scheme come from the attributes of the request alone. Headers
// that say something else about them, pseudo headers too, are not looked at.
func question(about *authv3.AttributeContext) (q forwardauth.Question, err error) {
	r := about.GetRequest().GetHttp()
	switch {
	case r == nil:
		return q, malformed("the check is not about an HTTP request")
	case r.GetQuery() != "" || r.GetFragment() != "":
		return q, malformed("query and fragment are part of the path")
	}
	q = forwardauth.Question{
		Method: r.GetMethod(), Scheme: r.GetScheme(), Host: r.GetHost(), Target: r.GetPath(),
		Client: source(about.GetSource()), Certificate: about.GetSource().GetCertificate(),
	}
	if q.Header, err = headers(r); err != nil {
		return q, err
	}
	for name, value := range about.GetContextExtensions() {
		switch name {
		case "policy":
			if q.Gate = value; value == "" {
				return q, malformed("the context extension policy is empty: name a forward_auth or a policy, or leave it out")
			}
		case "scope", "group", "level", "audience":
			if q.Narrow == nil {
				q.Narrow = url.Values{}
			}
			q.Narrow.Set(name, value)
		default: // a word that is misspelled would leave a route open to more people than it says
			return q, malformed("unknown context extension " + strconv.Quote(name) + ": known are policy, scope, group, level and audience")
		}
	}
	return q, nil
}

// source is the address of the peer that has connected to Envoy.
func source(peer *authv3.AttributeContext_Peer) netip.Addr {
	addr, err := netip.ParseAddr(peer.GetAddress().GetSocketAddress().GetAddress())
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// headers returns the headers of the client's request: header_map when Envoy sends it (encode_raw_headers), which has
// repeated ones apart and every byte, otherwise headers.
func headers(r *authv3.AttributeContext_HttpRequest) (http.Header, error) {
	out := make(http.Header, len(r.GetHeaders())+len(r.GetHeaderMap().GetHeaders()))
	add := func(name, value string) error {
		switch {
		case strings.HasPrefix(name, ":"), strings.EqualFold(name, "host"): // see question
			return nil
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return malformed("a header is malformed")
		}
		name = http.CanonicalHeaderKey(name)
		out[name] = append(out[name], value)
		return nil
	}
	if list := r.GetHeaderMap(); list != nil {
		for _, h := range list.GetHeaders() {
			value := h.GetValue()
			if raw := h.GetRawValue(); len(raw) > 0 {
				if value != "" && value != string(raw) {
					return nil, malformed("a header has two values")
				}
				value = string(raw)
			}
			if err := add(h.GetKey(), value); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	for name, value := range r.GetHeaders() {
		key := http.CanonicalHeaderKey(name)
		if _, twice := out[key]; twice { // Envoy writes names in lower case
			return nil, malformed("a header is there in two spellings")
		}
		if err := add(name, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// answer writes a decision. OK is written in this place alone.
func answer(a *forwardauth.Answer, sent http.Header) (*authv3.CheckResponse, error) {
	switch {
	case a.Passed:
		return &authv3.CheckResponse{
			Status: &status.Status{Code: int32(codes.OK)}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: passed(a, sent)},
		}, nil
	case a.Status >= http.StatusInternalServerError:
		return nil, errUnavailable
	case a.Status == http.StatusUnauthorized:
		return denied(codes.Unauthenticated, a.Status, a.Header, a.Body), nil
	case a.Status == http.StatusTooManyRequests:
		return denied(codes.ResourceExhausted, a.Status, a.Header, a.Body), nil
	}
	return denied(codes.PermissionDenied, a.Status, a.Header, a.Body), nil
}

// passed says what Envoy changes in the request: identity headers overwrite those of the client, and whatever only the
// gate may set is removed in the spellings that were sent. Envoy removes after it has set.
func passed(a *forwardauth.Answer, sent http.Header) *authv3.OkHttpResponse {
	out := new(authv3.OkHttpResponse)
	for name, values := range a.Limits {
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd,
			header(strings.ToLower(name), values[0], corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
	}
	for name, values := range a.Identity {
		if len(values) > 0 && values[0] != "" {
			out.Headers = append(out.Headers, header(name, values[0], corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
		}
	}
	remove := func(name string) {
		name = strings.ToLower(name)
		isSet := func(h *corev3.HeaderValueOption) bool { return h.GetHeader().GetKey() == name }
		if !slices.ContainsFunc(out.Headers, isSet) && !slices.Contains(out.HeadersToRemove, name) {
			out.HeadersToRemove = append(out.HeadersToRemove, name)
		}
	}
	if cookies := sent["Cookie"]; a.Cookie != "" && (len(cookies) != 1 || cookies[0] != a.Cookie) {
		out.Headers = append(out.Headers, header("cookie", a.Cookie, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
	} else if a.Cookie == "" && len(cookies) > 0 {
		remove("cookie")
	}
	for _, name := range a.Remove {
		remove(name)
	}
	return out
}

// denied answers the client in place of the upstream.
func denied(code codes.Code, httpStatus int, h http.Header, body []byte) *authv3.CheckResponse {
	if httpStatus < http.StatusMultipleChoices || typev3.StatusCode_name[int32(httpStatus)] == "" { //nolint:gosec // of HTTP
		httpStatus = http.StatusForbidden // Envoy refuses an answer with a status that it does not know
	}
	out := &authv3.DeniedHttpResponse{ //nolint:gosec // of HTTP
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(httpStatus)},
		Body:   string(body),
	}
	if !utf8.ValidString(out.Body) {
		out.Body = ""
	}
	for name, values := range h {
		for i, value := range values {
			action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
			if i > 0 {
				action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
			}
			out.Headers = append(out.Headers, header(name, value, action))
		}
	}
	return &authv3.CheckResponse{
		Status:       &status.Status{Code: int32(code)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: out}, //nolint:gosec // below 17
	}
}

func header(name, value string, action corev3.HeaderValueOption_HeaderAppendAction) *corev3.HeaderValueOption {
	h := &corev3.HeaderValue{Key: strings.ToLower(name), Value: value}
	if !utf8.ValidString(value) { // a text of protobuf must be UTF-8
		h.Value, h.RawValue = "", []byte(value)
	}
	return &corev3.HeaderValueOption{Header: h, AppendAction: action}
}
