//go:build dist

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// These tests make whole releases and use them as people do: they check, install, upgrade and remove them. They need
// root, the programs of needed, and half an hour: `make nightly` runs them.

const (
	oldVersion = "v0.0.1"
	newVersion = "v0.0.2"
	namespace  = "GATEHOUSE_TEST_NAMESPACE" // in the environment of the tests within a namespace
	maxImage   = 45 << 20
	emulator   = "qemu-aarch64-static"
)

// needed are programs that the tests run, with the package of Debian that has them.
var needed = map[string]string{
	"debootstrap": "debootstrap", "minisign": "minisign", "sha256sum": "coreutils", "setpriv": "util-linux", "unshare": "util-linux",
	"chroot": "coreutils", "mount": "mount", "git": "git", "tar": "tar", emulator: "qemu-user-static",
}

// dists are the directories of finished releases: of the old version, of the new one, and of the same made elsewhere.
var dists = flag.String("dists", "", "directories of three releases, to spare the builds: v0.0.1,v0.0.2,v0.0.2 of another directory")

var oldDist, newDist, otherDist, debian string

// TestMain makes the releases and a Debian, and runs the tests in a namespace: whatever they start ends with it, and
// port 80 is theirs.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (int, error) {
	if inside := os.Getenv(namespace); inside != "" {
		paths := strings.Split(inside, ",")
		oldDist, newDist, otherDist, debian = paths[0], paths[1], paths[2], paths[3]
		if err := loopback(); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}
	if os.Getuid() != 0 {
		return 0, errors.New("these tests install packages into a Debian of their own, which takes root")
	}
	for name, pkg := range needed {
		if _, err := exec.LookPath(name); err != nil {
			return 0, fmt.Errorf("%w: install the package %s", err, pkg)
		}
	}
	dir, err := os.MkdirTemp("", "gatehouse-dist-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	paths := strings.Split(*dists, ",")
	if *dists == "" {
		if paths, err = releases(dir); err != nil {
			return 0, err
		}
	}
	root, err := bootstrap()
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	args := append([]string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", self}, os.Args[1:]...)
	cmd := exec.Command("unshare", args...)
	cmd.Env = append(os.Environ(), namespace+"="+strings.Join(append(paths, root), ","))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	} else if err != nil {
		return 0, err
	}
	return 0, nil
}

// releases makes the three releases from the commit: the old one for this machine, and the new one for all platforms,
// here and in another directory.
func releases(dir string) (paths []string, err error) {
	tree := filepath.Join(dir, "another", "tree")
	if _, err := output("..", nil, "git", "worktree", "add", "--detach", tree, "HEAD"); err != nil {
		return nil, err
	}
	defer output("..", nil, "git", "worktree", "remove", "--force", tree) //nolint:errcheck // it is below a directory that goes
	for i, r := range []release{{root: "..", version: oldVersion}, {root: "..", version: newVersion}, {root: tree, version: newVersion}} {
		r.out, r.targets = filepath.Join(dir, fmt.Sprint(i)), strings.Split(platforms, ",")
		if r.version == oldVersion {
			r.targets = []string{runtime.GOOS + "/" + runtime.GOARCH}
		}
		if err := r.make(filepath.Join("testdata", "minisign.key"), false); err != nil {
			return nil, err
		}
		paths = append(paths, r.out)
	}
	return paths, nil
}

// bootstrap makes a small Debian with rpm and systemd-analyze, once.
func bootstrap() (string, error) {
	root, err := filepath.Abs("../.bin/debian")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if err := os.RemoveAll(root + ".new"); err != nil {
		return "", err
	}
	if _, err := output(".", nil, "debootstrap", "--variant=minbase", "--include=rpm,systemd", "bookworm", root+".new"); err != nil {
		return "", err
	}
	return root, os.Rename(root+".new", root)
}

// loopback switches on the loopback interface of the namespace.
func loopback() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	var request struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); e != 0 {
		return e
	}
	return nil
}

// TestSameBytesElsewhere: two builds in different directories give the same bytes.
func TestSameBytesElsewhere(t *testing.T) {
	here, there := release{out: newDist}, release{out: otherDist}
	a, err := here.results()
	b, err2 := there.results()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a, b) || len(a) < 9 {
		t.Errorf("results of two builds = %v and %v, want the same", a, b)
	}
}

// TestVerifyCommands runs the commands by which docs/versions.md checks a download, and once more after one byte of a
// package has changed.
func TestVerifyCommands(t *testing.T) {
	doc, err := os.ReadFile("../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## Check a download\n")
	m := regexp.MustCompile("(?s)```text\n(.*?)```").FindStringSubmatch(section)
	if m == nil {
		t.Fatal("docs/versions.md does not say how to check a download")
	}
	dir := t.TempDir()
	run(t, "cp", "-r", newDist+"/.", dir)
	run(t, "cp", "testdata/minisign.pub", filepath.Join(dir, "gatehouse.pub"))
	check := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", m[1])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := check()
	if err != nil || !strings.Contains(out, "gatehouse "+newVersion+", commit ") || !strings.Contains(out, ".deb: OK") {
		t.Errorf("the commands of docs/versions.md: %v\n%s", err, out)
	}
	name := filepath.Join(dir, "gatehouse_0.0.2_linux_amd64.deb")
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil {
		t.Errorf("the commands of docs/versions.md accept another package:\n%s", out)
	}
}

// TestArchivesRun unpacks the archive of each platform, and has the binary say its version and serve a page where the
// platform is this machine's or can be emulated.
func TestArchivesRun(t *testing.T) {
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, platform := range strings.Split(platforms, ",") {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			name := "gatehouse_0.0.2_" + strings.ReplaceAll(platform, "/", "_")
			program := "caddy"
			if strings.HasPrefix(platform, "windows/") {
				program = "caddy.exe"
				files, err := zip.OpenReader(filepath.Join(newDist, name+".zip"))
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.CopyFS(dir, files), files.Close()); err != nil {
					t.Fatal(err)
				}
			} else {
				run(t, "tar", "-xf", filepath.Join(newDist, name+".tar.gz"), "-C", dir)
			}
			bin := filepath.Join(dir, name, program)
			for _, file := range []string{bin, filepath.Join(dir, name, "LICENSE"), filepath.Join(dir, name, "README.md")} {
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			}
			bom, err := os.ReadFile(filepath.Join(newDist, name+".cdx.json"))
			if err != nil || !strings.Contains(string(bom), "pkg:golang/github.com/gatehouse-id/gatehouse@"+newVersion) {
				t.Errorf("the bill of materials does not name Gatehouse %s (%v)", newVersion, err)
			}
			info, err := buildinfo.ReadFile(bin)
			if err != nil {
				t.Fatal(err)
			}
			system, arch, _ := strings.Cut(platform, "/")
			for key, want := range map[string]string{"GOOS": system, "GOARCH": arch} {
				if got := settingOf(info, key); got != want {
					t.Errorf("the binary is for %s %q, want %q", key, got, want)
				}
			}
			if raw, err := os.ReadFile(bin); err != nil || bytes.Contains(raw, []byte(here)) {
				t.Errorf("the binary names the directory %s (%v)", here, err)
			}
			words := []string{bin}
			switch platform {
			case runtime.GOOS + "/" + runtime.GOARCH:
			case "linux/arm64":
				words = []string{emulator, bin}
			default:
				return
			}
			said := run(t, words[0], append(words[1:], "gatehouse", "version")...)
			if !strings.Contains(said, newVersion) || !strings.Contains(said, platform) {
				t.Errorf("caddy gatehouse version = %q, want %s and %s", said, newVersion, platform)
			}
			m := &machine{t: t, root: dir}
			t.Cleanup(m.end)
			port := map[string]string{"amd64": "8081", "arm64": "8082"}[arch]
			m.write("/Caddyfile", strings.NewReplacer("/var/lib/gatehouse", dir, "//localhost", "//localhost:"+port).Replace(signIn))
			cmd := exec.Command(words[0], append(words[1:], "run", "--config", dir+"/Caddyfile")...)
			cmd.Env = []string{"HOME=" + dir}
			m.launch(cmd, dir+"/notify", dir+"/notify")
			if got := m.get("127.0.0.1:"+port, "/oauth/jwks"); !strings.Contains(got, `"kid"`) {
				t.Errorf("the keys of the server are %s", got)
			}
			m.stop()
		})
	}
}

func settingOf(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// signIn is a Caddyfile with an issuer, whose keys are data.
const signIn = `{
	auto_https off
	gatehouse {
		issuer http://localhost
		storage badger /var/lib/gatehouse/store
	}
}

http://localhost {
	gatehouse
}
`

// TestPackages installs, upgrades and removes packages of each format, and runs the service as the unit says.
func TestPackages(t *testing.T) {
	for _, c := range []struct {
		format                   string
		install, upgrade, remove []string
		kept                     string // the Caddyfile after a removal
	}{
		{"deb", []string{"dpkg", "-i"}, []string{"dpkg", "-i"}, []string{"dpkg", "-r", "gatehouse"}, "/etc/caddy/Caddyfile"},
		{
			"rpm",
			[]string{"rpm", "-i", "--nodeps", "--force-debian"},
			[]string{"rpm", "-U", "--nodeps", "--force-debian"},
			[]string{"rpm", "-e", "gatehouse"},
			"/etc/caddy/Caddyfile.rpmsave",
		},
	} {
		t.Run(c.format, func(t *testing.T) {
			m := newMachine(t)
			m.chroot(append(c.install, m.bring(oldDist, "0.0.1", c.format))...)
			if out := m.chroot("systemd-analyze", "verify", "/usr/lib/systemd/system/caddy.service"); out != "" {
				t.Errorf("systemd-analyze verify:\n%s", out)
			}
			m.start()
			if got := m.get("127.0.0.1:80", "/"); !strings.Contains(got, "Caddy with Gatehouse runs") {
				t.Errorf("after the installation the server answers %q", got)
			}
			m.stop()
			m.write("/etc/caddy/Caddyfile", signIn)
			m.start()
			keys := m.get("127.0.0.1:80", "/oauth/jwks")
			if got := m.chroot("/usr/bin/caddy", "gatehouse", "version"); !strings.Contains(got, oldVersion) {
				t.Errorf("version = %q, want %s", got, oldVersion)
			}
			m.stop()
			m.chroot(append(c.upgrade, m.bring(newDist, "0.0.2", c.format))...)
			if got := m.chroot("/usr/bin/caddy", "gatehouse", "version"); !strings.Contains(got, newVersion) {
				t.Errorf("version after the upgrade = %q, want %s", got, newVersion)
			}
			m.start()
			if got := m.get("127.0.0.1:80", "/oauth/jwks"); got != keys || !strings.Contains(got, `"kid"`) {
				t.Errorf("keys after the upgrade = %s, want those of before, %s", got, keys)
			}
			m.stop()
			m.chroot(c.remove...)
			if _, err := os.Stat(m.root + "/usr/bin/caddy"); err == nil {
				t.Error("the removal leaves /usr/bin/caddy")
			}
			m.keeps(c.kept, signIn)
			m.keepsData()
			m.chroot(append(c.install, m.bring(newDist, "0.0.2", c.format))...)
			if c.format == "rpm" {
				m.chroot("mv", c.kept, "/etc/caddy/Caddyfile")
			}
			m.start()
			if got := m.get("127.0.0.1:80", "/oauth/jwks"); got != keys {
				t.Errorf("keys after removal and installation = %s, want those of before, %s", got, keys)
			}
			m.stop()
			if c.format == "deb" {
				m.chroot("dpkg", "-P", "gatehouse")
				if _, err := os.Stat(m.root + "/etc/caddy/Caddyfile"); err == nil {
					t.Error("a purge leaves the Caddyfile")
				}
				m.keepsData()
			}
		})
	}
}

// machine is a Debian of a test. The test is its service manager.
type machine struct {
	t    *testing.T
	root string
	cmd  *exec.Cmd
	log  bytes.Buffer
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	run(t, "cp", "-a", "--reflink=auto", debian, m.root)
	m.write("/etc/hosts", "127.0.0.1 localhost\n")
	t.Cleanup(m.end)
	return m
}

// end stops what a failed test has left, and shows the log.
func (m *machine) end() {
	if m.cmd != nil {
		m.stop()
	}
	if m.t.Failed() {
		m.t.Logf("the log:\n%s", m.log.String())
	}
}

// bring puts a package into the root of the machine and returns its name there.
func (m *machine) bring(dist, version, format string) string {
	m.t.Helper()
	name := fmt.Sprintf("gatehouse_%s_linux_amd64.%s", version, format)
	run(m.t, "cp", filepath.Join(dist, name), m.root)
	return "/" + name
}

// chroot runs a command on the machine.
func (m *machine) chroot(args ...string) string {
	m.t.Helper()
	args = append([]string{m.root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LC_ALL=C"}, args...)
	return run(m.t, "chroot", args...)
}

func (m *machine) write(name, content string) {
	m.t.Helper()
	if err := os.WriteFile(m.root+name, []byte(content), 0o644); err != nil { //nolint:gosec // files that exist keep their mode
		m.t.Fatal(err)
	}
}

func (m *machine) keeps(name, want string) {
	m.t.Helper()
	if got, err := os.ReadFile(m.root + name); err != nil || string(got) != want {
		m.t.Errorf("%s = %q, %v, want it as it was", name, got, err)
	}
}

// keepsData looks for the records and the user.
func (m *machine) keepsData() {
	m.t.Helper()
	users, err := os.ReadFile(m.root + "/etc/passwd")
	_, err2 := os.Stat(m.root + "/var/lib/gatehouse/store/MANIFEST")
	if err := errors.Join(err, err2); err != nil || !strings.Contains(string(users), "\ncaddy:") {
		m.t.Errorf("the removal takes records or the user along: %v", err)
	}
}

// sandbox runs a command as the unit has it run: as its user, without capabilities but one, and with one directory that
// can be written.
const sandbox = `root=$1; shift
install -d -m 700 "$root/var/lib/gatehouse"
chroot "$root" chown caddy:caddy /var/lib/gatehouse
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$root/var/lib/gatehouse" "$root/var/lib/gatehouse"
mount -o remount,bind,rw "$root/var/lib/gatehouse"
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
exec chroot "$root" setpriv --reuid=caddy --regid=caddy --clear-groups --no-new-privs --bounding-set=-all,+net_bind_service \
	--inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service "$@"
`

// start starts the service as the unit file of the package says, and waits until it says that it is ready.
func (m *machine) start() {
	m.t.Helper()
	unit, err := os.ReadFile(m.root + "/usr/lib/systemd/system/caddy.service")
	if err != nil {
		m.t.Fatal(err)
	}
	setting := func(name string) []string {
		value := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindSubmatch(unit)
		if value == nil {
			m.t.Fatalf("the unit has no %s", name)
		}
		return strings.Fields(string(value[1]))
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-ec", sandbox, "sh", m.root}, setting("ExecStart")...)...)
	cmd.Env = append(setting("Environment"), "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/var/lib/gatehouse")
	m.launch(cmd, m.root+"/run/notify", "/run/notify")
}

// launch starts a program and waits until it says to systemd that it is ready. socket is a path on this machine, and
// there is the same for the program.
func (m *machine) launch(cmd *exec.Cmd, socket, there string) {
	m.t.Helper()
	if err := os.RemoveAll(socket); err != nil {
		m.t.Fatal(err)
	}
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		m.t.Fatal(err)
	}
	defer ready.Close()
	if err := os.Chmod(socket, 0o777); err != nil { //nolint:gosec // for another user
		m.t.Fatal(err)
	}
	cmd.Env, cmd.Stdout, cmd.Stderr = append(cmd.Env, "NOTIFY_SOCKET="+there), &m.log, &m.log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.cmd = cmd
	if err := ready.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		m.t.Fatal(err)
	}
	for said := make([]byte, 1024); ; {
		n, err := ready.Read(said)
		if err != nil {
			m.t.Fatalf("the server did not say that it is ready: %v", err)
		}
		if strings.Contains(string(said[:n]), "READY=1") {
			return
		}
	}
}

// stop ends the service as systemd does.
func (m *machine) stop() {
	m.t.Helper()
	err := m.cmd.Process.Signal(syscall.SIGTERM)
	if err := errors.Join(err, m.cmd.Wait()); err != nil {
		m.t.Errorf("the service ended with %v\n%s", err, m.log.String())
	}
	m.cmd = nil
}

// get returns what the server at an address says about a path.
func (m *machine) get(address, path string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	req.Host = strings.Replace(address, "127.0.0.1", "localhost", 1)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		m.t.Errorf("GET %s status = %d, %v, want 200", path, res.StatusCode, err)
	}
	return string(body)
}

// isolated runs an image as a platform does that trusts it little: a user that it made up, no capability, a root that
// is read-only, and a volume.
const isolated = `root=$1; shift
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$root.volume" "$root/data"
exec chroot --userspec=1234567:0 --groups= "$root" "$@"
`

// TestImageRuns unpacks the image and runs it as a user that it does not know, without a home.
func TestImageRuns(t *testing.T) {
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	t.Cleanup(m.end)
	config := unpack(t, filepath.Join(newDist, "gatehouse_0.0.2_oci.tar"), m.root)
	volume := m.root + ".volume"
	if err := errors.Join(os.Mkdir(volume, 0o777), os.Chmod(volume, 0o777)); err != nil { //nolint:gosec // a volume for everyone
		t.Fatal(err)
	}
	m.write("/etc/hosts", "127.0.0.1 localhost\n") // as the platform does
	m.write("/etc/caddy/Caddyfile", strings.NewReplacer("/var/lib/gatehouse", "/data", "//localhost", "//localhost:8080").Replace(signIn))
	program := func(words []string) *exec.Cmd {
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-ec", isolated, "sh", m.root}, words...)...)
		cmd.Env = append(slices.DeleteFunc(slices.Clone(config.Env), func(e string) bool {
			return strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "PATH=")
		}), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
		return cmd
	}
	m.launch(program(slices.Concat(config.Entrypoint, config.Cmd)), volume+"/notify", "/data/notify")
	m.get("127.0.0.1:8080", "/healthz")
	if out, err := program(config.Healthcheck.Test[1:]).CombinedOutput(); err != nil {
		t.Errorf("the health check of the image: %v\n%s", err, out)
	}
	m.stop()
	if out, err := program(config.Healthcheck.Test[1:]).CombinedOutput(); err == nil {
		t.Errorf("the health check accepts an image that does not run:\n%s", out)
	}
}

// unpack writes the files of the image for this platform below root and returns its configuration.
func unpack(t *testing.T, file, root string) v1.Config {
	t.Helper()
	dir := t.TempDir()
	run(t, "tar", "-xf", file, "-C", dir)
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, l := range layers {
		n, err := l.Size()
		if err != nil {
			t.Fatal(err)
		}
		size += n
	}
	if size > maxImage {
		t.Errorf("the image has %d bytes, want at most %d", size, maxImage)
	}
	if err := os.Mkdir(root, 0o755); err != nil { //nolint:gosec // the root of an image
		t.Fatal(err)
	}
	files := mutate.Extract(img)
	defer files.Close()
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "-p", "-C", root)
	cmd.Stdin = files
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.Config
}

// run runs a program that must succeed and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
