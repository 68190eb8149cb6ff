package archtest

func init() {
	mayImportRows(`
storage:
storage/badgerstore: storage storage/engine storage/transfer
storage/engine: storage
storage/pgstore: storage storage/engine storage/transfer
storage/storagetest: internal/modeltest storage
storage/transfer: storage
`)
}
