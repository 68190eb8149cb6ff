<?php
// SimpleSAMLphp as an identity provider to try Gatehouse with. $GATEHOUSE_SAML_DIR holds its key and state, $GATEHOUSE_SAML_ETC what came with
// it, $GATEHOUSE_SAML_URL is where it listens.
if (!class_exists('FileStore', false)) {
    // Answers by artifact need a store that all of its processes share. This one holds a file for each record.
    class FileStore extends \SimpleSAML\Store
    {
        private function path($type, $key)
        {
            return getenv('GATEHOUSE_SAML_DIR') . '/store/' . hash('sha256', $type . "\0" . $key);
        }

        public function get($type, $key)
        {
            $raw = @file_get_contents($this->path($type, $key));
            $record = $raw === false ? null : unserialize($raw);
            return $record === null || ($record['expire'] !== null && $record['expire'] < time()) ? null : $record['value'];
        }

        public function set($type, $key, $value, $expire = null)
        {
            $path = $this->path($type, $key);
            file_put_contents("$path." . getmypid(), serialize(['value' => $value, 'expire' => $expire]));
            rename("$path." . getmypid(), $path);
        }

        public function delete($type, $key)
        {
            @unlink($this->path($type, $key));
        }
    }
}

$dir = getenv('GATEHOUSE_SAML_DIR') . '/';
$config = [
    'baseurlpath' => getenv('GATEHOUSE_SAML_URL') . '/',
    'certdir' => $dir . 'cert/',
    'loggingdir' => $dir . 'log/',
    'datadir' => $dir . 'data/',
    'tempdir' => $dir . 'tmp',
    'metadatadir' => __DIR__ . '/metadata/',
    'attributenamemapdir' => getenv('GATEHOUSE_SAML_ETC') . '/attributemap/',
    'secretsalt' => trim(file_get_contents($dir . 'salt')),
    'auth.adminpassword' => trim(file_get_contents($dir . 'salt')),
    'timezone' => 'UTC',
    'logging.handler' => 'file',
    'logging.level' => SimpleSAML\Logger::INFO,
    'admin.checkforupdates' => false,
    'enable.saml20-idp' => true,
    'module.enable' => ['exampleauth' => true, 'core' => true, 'saml' => true],
    'store.type' => 'FileStore',
    // Cookies ignore the port: other test servers on the same host have cookies as well.
    'session.cookie.name' => 'SimpleSAMLSession',
    'session.cookie.secure' => false,
    'session.cookie.samesite' => null,
    'language.default' => 'en',
    'language.available' => ['en'],
    'theme.use' => 'default',
    'metadata.sources' => [['type' => 'flatfile']],
];
