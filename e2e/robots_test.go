package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRobots: a robot that signs its requests by another implementation passes where a rule lets it, each signature
// once.
func TestRobots(t *testing.T) {
	t.Parallel()
	s := &server{t: t, dir: t.TempDir(), secrets: map[string]string{}, Echo: application(t)}
	certify(t, s.dir)
	ports := freePorts(t, 3)
	s.Issuer, s.Wiki = fmt.Sprintf("http://localhost:%d", ports[0]), fmt.Sprintf("http://localhost:%d", ports[1])
	s.write(fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	default_bind 127.0.0.1
	grace_period 100ms
	gatehouse {
		issuer %[1]s
		storage badger %[2]s/data
		outbound {
			allow 127.0.0.0/8
		}
	}
}
%[1]s {
	gatehouse
}
%[3]s {
	protect {
		allow {
			match path /docs/*
			need agent localhost:%[4]d
		}
		allow {
			need groups staff
		}
	}
	reverse_proxy %[5]s
}
`, s.Issuer, s.dir, s.Wiki, ports[2], s.Echo))
	cert := filepath.Join(s.dir, "cert.pem")
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir, "SSL_CERT_FILE="+cert)
	s.await(s.Issuer + "/healthz")

	cmd := exec.CommandContext(t.Context(), "node", "node/robot.mjs")
	cmd.Env = append(os.Environ(), "SITE="+s.Wiki, fmt.Sprintf("PORT=%d", ports[2]), "CERT="+cert, "KEY="+filepath.Join(s.dir, "key.pem"))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "ok ") != 7 {
		t.Errorf("the robot: %v\n%s", err, out)
	}
}
