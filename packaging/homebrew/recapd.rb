# Written by scripts/release from packaging/homebrew/recapd.rb.
class Recapd < Formula
  desc "Keeps LLM agents' context windows in budget, with an always-ready summary"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/recapd-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256 aarch64-apple-darwin@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/recapd-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256 x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/recapd-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256 aarch64-unknown-linux-gnu@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/recapd-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256 x86_64-unknown-linux-gnu@"
    end
  end

  def install
    bin.install "recapd"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/recapd.bash" => "recapd"
    zsh_completion.install "completions/_recapd"
    fish_completion.install "completions/recapd.fish"
  end

  service do
    run [opt_bin/"recapd", "serve"]
    keep_alive true
    error_log_path var/"log/recapd.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/recapd --version")
  end
end
