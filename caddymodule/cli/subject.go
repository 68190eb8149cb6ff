package cli

import (
	"fmt"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// subjectFlag is the name in the certificate of a client, such as san_dns=robot.example.com.
type subjectFlag struct{ client *client.Client }

func (s subjectFlag) String() string {
	if s.client == nil || s.client.CertificateSubject == nil {
		return ""
	}
	kind, name := (*certificate.Subject)(s.client.CertificateSubject).Name()
	return kind + "=" + name
}

func (s subjectFlag) Set(text string) error {
	kind, name, _ := strings.Cut(text, "=")
	subject := certificate.SubjectOf(kind, name)
	if subject == nil {
		return fmt.Errorf("want one of %s, then = and the name", strings.Join(certificate.Kinds, ", "))
	}
	s.client.CertificateSubject = (*client.Subject)(subject)
	return nil
}

func (subjectFlag) Type() string { return "kind=name" }
