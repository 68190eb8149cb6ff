package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
)

// anything lets every request pass, and does nothing else.
type anything struct {
	authv3.UnimplementedAuthorizationServer
}

func (anything) Check(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	return &authv3.CheckResponse{
		Status: &status.Status{Code: int32(codes.OK)}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{}},
	}, nil
}

// allowing serves the checks of Envoy and allows everything.
func allowing(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	authv3.RegisterAuthorizationServer(s, anything{})
	return s.Serve(l)
}

// checkRequest returns Envoy's check of a request to the site that signs browsers in.
func (b *bench) checkRequest() *authv3.CheckRequest {
	host := strings.TrimPrefix(b.server.Wiki(), "http://")
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "192.0.2.7"},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Scheme: "http", Host: host, Path: "/orders",
			Headers: map[string]string{
				":method": "GET", ":path": "/orders", ":authority": host, ":scheme": "http", "accept": "*/*", "user-agent": "bench",
				"cookie": b.tokens["session"], "x-request-id": "3c1e",
			},
		}},
		ContextExtensions: map[string]string{"policy": "wiki"},
	}}
}

// checks measures a check of Envoy next to a handler that does nothing.
func (b *bench) checks() (map[string]figures, error) {
	all := map[string][]sample{}
	rows := []struct {
		name string
		port int
		pid  int
	}{{rowCheckNothing, b.allowing.port, b.allowing.pid()}, {rowCheck, b.grpc, b.server.PID()}}
	in := b.checkRequest()
	for range *rounds {
		for _, row := range rows {
			done := b.profileOf(row.name, length())
			s, err := checking(b.ctx, fmt.Sprintf("127.0.0.1:%d", row.port), row.pid, in, length())
			done()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
			all[row.name] = append(all[row.name], s)
		}
	}
	out := map[string]figures{}
	for _, row := range rows {
		out[row.name] = mediansOf(all[row.name])
		b.row(row.name, out[row.name])
	}
	return out, nil
}

// checking keeps 16 checks under way over one connection, as a worker of Envoy does.
func checking(ctx context.Context, addr string, pid int, in *authv3.CheckRequest, d time.Duration) (sample, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return sample{}, err
	}
	defer conn.Close() //nolint:errcheck // it was only read
	envoy := authv3.NewAuthorizationClient(conn)
	if err := check(ctx, envoy, in); err != nil {
		return sample{}, err
	}
	m, err := begin(pid)
	if err != nil {
		return sample{}, err
	}
	var mu sync.Mutex // guards took and failed
	var took []time.Duration
	var failed error
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var own []time.Duration
			var err error
			for begun := time.Now(); err == nil && begun.Sub(m.at) < d; begun = time.Now() {
				err = check(ctx, envoy, in)
				own = append(own, time.Since(begun))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			failed = firstOf(failed, err)
		})
	}
	wg.Wait()
	s, err := m.end(took)
	return s, firstOf(failed, err)
}

// check asks once. An answer that does not let the request pass is an error.
func check(ctx context.Context, envoy authv3.AuthorizationClient, in *authv3.CheckRequest) error {
	out, err := envoy.Check(ctx, in)
	if err == nil && out.GetOkResponse() == nil {
		err = fmt.Errorf("the check was answered %v", out)
	}
	return err
}
