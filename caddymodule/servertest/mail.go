package servertest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// Mailbox is a mail server that puts what it is given into a channel.
func Mailbox(t *testing.T) (address string, mails chan string) {
	t.Helper()
	return MailboxSaying(t, func(string) string { return "250 taken" })
}

// MailboxSaying is a mailbox with this answer to a message.
func MailboxSaying(t *testing.T, answer func(mail string) string) (address string, mails chan string) {
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
