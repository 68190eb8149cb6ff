package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeTunnel takes over a connection and repeats every line.
func ServeTunnel(w http.ResponseWriter) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"); err != nil {
		return
	}
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
	}
}

// Tunnel is a connection through the protected API with a protocol other than HTTP, as WebSockets have.
type Tunnel struct {
	c net.Conn
	r *bufio.Reader
}

// OpenTunnel opens a tunnel with an access token.
func (s *Server) OpenTunnel(token string) (*Tunnel, error) {
	c, err := net.Dial("tcp", net.JoinHostPort(s.Address, strconv.Itoa(s.Ports.API)))
	if err != nil {
		return nil, err
	}
	t := &Tunnel{c: c, r: bufio.NewReader(c)}
	request := fmt.Sprintf("GET /tunnel HTTP/1.1\r\nHost: localhost:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer %s\r\n\r\n", s.Ports.API, token)
	if _, err := io.WriteString(c, request); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	res, err := http.ReadResponse(t.r, nil) //nolint:bodyclose // the tunnel is its body
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("tunnel: status %d", res.StatusCode)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return t, nil
}

// Say sends a line and waits for it to come back.
func (t *Tunnel) Say(line string) error {
	if err := t.c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(t.c, line+"\n"); err != nil {
		return err
	}
	if back, err := t.r.ReadString('\n'); err != nil || strings.TrimSpace(back) != line {
		return fmt.Errorf("tunnel: %q came back as %q: %w", line, back, err)
	}
	return nil
}

// Close closes the tunnel.
func (t *Tunnel) Close() { _ = t.c.Close() }

// HTTP2 introspects a token over HTTP/2 on one kept connection, repeatedly until ctx ends. It returns the number of
// requests, and how many had no right answer.
func (s *Server) HTTP2(ctx context.Context, token string) (done, failed int, last error) {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &only}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		req, err := http.NewRequest(http.MethodPost, s.Issuer()+"/oauth/api/v2/token/introspect", strings.NewReader("token="+token))
		if err != nil {
			return done, failed, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(APIID, s.Secrets.API)
		err = http2Answer(client, req)
		if done++; err != nil {
			failed++
			last = err
		}
	}
	return done, failed, last
}

func http2Answer(client *http.Client, req *http.Request) error {
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || !strings.Contains(string(body), `"active":true`)) {
		err = fmt.Errorf("%s %d: %s", res.Proto, res.StatusCode, body)
	}
	return err
}
