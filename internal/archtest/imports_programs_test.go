package archtest

func init() {
	mayImportRows(`
.: caddymodule
bench: faults storage
cmd: .
e2e:
faults: storage
release:
`)
}
