#!/bin/bash
# demo.sh LACONIC FOLDER: hash codes of 32 bits for Fashion-MNIST, learnt by four methods, compared in a table and a plot.
# `make demo` runs it. The images are those of the Debian package dataset-fashion-mnist.
set -euo pipefail
laconic=$1
out=$2
data=/usr/share/datasets/fashion-mnist
base=$data/train-images-idx3-ubyte.gz
query=$data/t10k-images-idx3-ubyte.gz
start=$SECONDS

run() {
  printf '\n$ laconic %s\n' "$*"
  "$laconic" "$@"
}

mkdir -p "$out"
run info "$base"
run hash train "$base" -o "$out/ba.safetensors" --bits 32 --workers 2 --plot "$out/training.svg"
for method in itq pca lsh; do
  run hash train "$base" -o "$out/$method.safetensors" --bits 32 --method $method --workers 2
done
run hash eval "$out"/{ba,itq,pca,lsh}.safetensors --base "$base" --query "$query" --plot "$out/retrieval.svg"
run hash encode "$out/ba.safetensors" "$base" -o "$out/codes.npy"
run hash search "$out/ba.safetensors" --base "$out/codes.npy" --query "$query" -k 100 -o "$out/found.ivecs"
run hash export "$out/ba.safetensors" --faiss "$out/encoder.faiss" --codes "$out/codes.npy" \
  --faiss-binary "$out/codes.faiss"
printf '\n%d seconds. Models, codes, answers and plots are in %s:\n' $((SECONDS - start)) "$out"
ls "$out"
