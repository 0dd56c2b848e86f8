"""Training pictures a second: Stretto's loader with one thread, torchvision and Pillow with one worker, in turns.

    make bench-loader LOADER='--data DIR --rounds 9'

Both decode the same JPEG files, take a random resized crop of 224, mirror half of them and normalise. Without --data 400
pictures of the usual sizes of ImageNet are made first. Figures are the best of all rounds, since a busy machine only
takes away; both by wall time and by processor time.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time


def make_pictures(root, count):
    import numpy as np
    from PIL import Image

    random.seed(1)
    rng = np.random.RandomState(1)
    for split, share in (("train", count), ("val", 8)):
        for i in range(share):
            width, height = random.choice([(500, 375), (500, 333), (375, 500), (500, 400), (400, 300), (640, 480)])
            coarse = rng.rand(height // 12, width // 12, 3) * 255
            smooth = np.array(Image.fromarray(coarse.astype(np.uint8)).resize((width, height), Image.BICUBIC))
            noisy = smooth.astype(int) + rng.randint(-14, 15, (height, width, 1))
            folder = os.path.join(root, split, "ab"[i % 2])
            os.makedirs(folder, exist_ok=True)
            Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(os.path.join(folder, f"{i}.jpg"), quality=90)


def torch_side(root, images, batch):
    """Runs in a process of its own: prints as bench-loader does."""
    import resource

    import torch
    import torchvision.transforms as T
    from torchvision.datasets import ImageFolder

    torch.set_num_threads(1)
    transforms = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
                            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    data = ImageFolder(os.path.join(root, "train"), transforms)

    def used():
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    loader = torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=1)
    begin, busy, taken = None, used(), 0
    while taken < images:
        for pictures, _ in loader:
            if begin is None:  # the worker's start is not counted
                begin = time.perf_counter()
                continue
            taken += len(pictures)
            if taken >= images:
                break
    wall = time.perf_counter() - begin
    # What a worker used shows when it has ended: the same work once more, in this process.
    del loader
    busy, alone = used(), 0
    for pictures, _ in torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=0):
        alone += len(pictures)
        if alone >= images:
            break
    print(f"{taken / wall:.1f} {alone / (used() - busy):.1f}")


def measure(command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(word) for word in out.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="the program bench-loader")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, torchvision and Pillow")
    parser.add_argument("--data", help="a folder of pictures, train/CLASS/*.jpg and val/CLASS/*.jpg")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=800, help="a round and side")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--torch-side", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help="only make the 400 pictures, in the folder of --data")
    options = parser.parse_args()
    if options.torch_side:
        return torch_side(options.data, options.images, options.batch)
    if options.make:
        return make_pictures(options.data, 400)
    with tempfile.TemporaryDirectory() as made:
        this = [options.python, os.path.abspath(__file__)]
        data = options.data or made
        if not options.data:
            subprocess.run([*this, "--make", "--data", made], check=True)
        versions = "import torch, torchvision, PIL; print(torch.__version__, torchvision.__version__, PIL.__version__)"
        found = subprocess.run([options.python, "-c", versions], check=True, stdout=subprocess.PIPE, text=True).stdout
        print("torch, torchvision, Pillow:", found.strip())
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(measure([options.bench, "folder:" + data, str(options.images), "1", str(options.batch)]))
            theirs.append(measure([*this, "--torch-side", "--data", data, "--images", str(options.images),
                                   "--batch", str(options.batch)]))
        for index, name in enumerate(("wall time", "processor time")):
            a, b = max(row[index] for row in ours), max(row[index] for row in theirs)
            print(f"images a second of {name}: stretto {a:.0f}, torchvision {b:.0f}, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
