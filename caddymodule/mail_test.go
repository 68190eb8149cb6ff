package caddymodule_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mailbox is a mail server that puts what it is given into a channel.
func mailbox(t *testing.T) (address string, mails chan string) {
	t.Helper()
	return mailboxSaying(t, func(string) string { return "250 taken" })
}

// mailboxSaying is a mailbox with this answer to a message.
func mailboxSaying(t *testing.T, answer func(mail string) string) (address string, mails chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	mails = make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go takeMail(c, mails, answer)
		}
	}()
	return l.Addr().String(), mails
}

func takeMail(c net.Conn, mails chan<- string, answer func(mail string) string) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(c, "220 here\r\n")
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		switch verb := strings.ToUpper(lines.Text()); {
		case verb == "DATA":
			fmt.Fprint(c, "354 go on\r\n")
			var b strings.Builder
			for lines.Scan() && lines.Text() != "." {
				b.WriteString(lines.Text() + "\n")
			}
			fmt.Fprint(c, answer(b.String())+"\r\n")
			mails <- b.String()
		case verb == "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 ok\r\n")
		}
	}
}

func TestMail(t *testing.T) {
	s := newServer(t)
	address, mails := mailbox(t)
	s.extra = "mail smtp " + address + " {\n\tfrom Gatehouse <no-reply@example.com>\n}"
	s.mustLoad()
	if out := s.run("", "check"); !strings.Contains(out, "mail           ok (0 waiting)") {
		t.Errorf("check = %s, want the mail server in it", out)
	}
	units := filepath.Join(t.TempDir(), "units.json")
	if err := os.WriteFile(units, []byte(`{"email_notifications":{"welcome":{"on_api_enabled":true},"attributes_update":{"on_password_updated":true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("", "config", "import", units)
	s.run("", "person", "add", "ann@example.com", "--no-password")
	got := <-mails
	for _, want := range []string{"From: \"Gatehouse\" <no-reply@example.com>", "To: <ann@example.com>", "Subject: Welcome to Gatehouse", "Auto-Submitted: auto-generated", "@localhost>", s.issuer() + "/account"} {
		if !strings.Contains(strings.ReplaceAll(got, "=\n", ""), want) {
			t.Errorf("mail = %s, want %q in it", got, want)
		}
	}
	// A reload, and a server that was not there for a while.
	s.extra = "mail smtp " + freeAddr(t) + " {\n\tfrom no-reply@example.com\n}"
	s.mustLoad()
	s.run("another horse 2\n", "person", "passwd", "ann@example.com")
	if _, err := run(t, "", "check", "--address", s.admin); err == nil || !strings.Contains(err.Error(), "the mail server") {
		t.Errorf("check with a mail server that is down = %v, want it to say so", err)
	}
	out, _ := run(t, "", "check", "--json", "--address", s.admin)
	if answer := decode[map[string]any](t, out); answer["mail_waiting"] != float64(1) || answer["mail"] == "ok" {
		t.Errorf("check --json = %v, want one mail that waits", answer)
	}
	// Without mail no message is sent, and nothing fails.
	s.extra = ""
	s.mustLoad()
	s.run("", "person", "add", "bob@example.com", "--no-password")
	if out := s.run("", "check"); strings.Contains(out, "mail ") {
		t.Errorf("check = %s, want nothing of mail", out)
	}
	select {
	case m := <-mails:
		t.Errorf("a mail that nobody should have sent: %s", m)
	default:
	}
}

func TestBreach(t *testing.T) {
	s := newServer(t)
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("password from a breach\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	t.Cleanup(down.Close)
	units := filepath.Join(t.TempDir(), "units.json")
	policy := `{"password_policy":{"min_length":8,"max_length":256,"lower_case_char_required":false,"upper_case_char_required":false,"special_char_required":false,"breached_password_blocked":true}}`
	if err := os.WriteFile(units, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(password string) string {
		t.Helper()
		_, err := run(t, password+"\n", "person", "passwd", "demo@example.com", "--address", s.admin)
		if err != nil {
			return err.Error()
		}
		return ""
	}
	load := func(options string) {
		t.Helper()
		s.inIdentity = "breach {\n" + options + "\n}"
		s.mustLoad()
	}
	load("file " + list)
	s.run("", "config", "import", units)
	if said := set("password from a breach"); !strings.Contains(said, "known from a breach") {
		t.Errorf("a password of the file: %q, want a refusal", said)
	}
	if said := set("one that nobody knows"); said != "" {
		t.Errorf("another password: %s", said)
	}
	load("url " + down.URL + "/")
	if said := set("password from a breach"); said != "" {
		t.Errorf("open, and the service does not answer: %s", said)
	}
	load("url " + down.URL + "/\non_failure closed\ntimeout 500ms\nfile " + list)
	if said := set("one that nobody knows"); !strings.Contains(said, "cannot tell") {
		t.Errorf("closed, and the service does not answer: %q, want a refusal", said)
	}
	s.inIdentity = "breach {\nfile " + list + ".none\n}"
	if err := s.load(); err == nil || !strings.Contains(err.Error(), "breach file") {
		t.Errorf("a file that is not there: %v, want an error", err)
	}
}
