// Takes over items of one post from an older model: upserts them, then sets the post's counters to what is stored.
// The counters are counted, not added up, so the same items may come twice and in any order; a comment may come before
// its post. Answers the number taken over; where the time budget ends first, the caller sends the rest again.
function absorb(postId, items) {
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var taken = 0;

  function must(accepted) {
    if (!accepted) throw new Error(503, 'absorb ran out of its time budget; nothing was changed');
  }

  function next() {
    if (taken === items.length) return count('comment', 0, null, countLikes);
    var accepted = collection.upsertDocument(self, items[taken], function (err) {
      if (err) throw err;
      taken++;
      next();
    });
    // What fits is kept: the counters are set by the run that takes over the rest.
    if (!accepted) getContext().getResponse().setBody(taken);
  }

  // Adds up the pages of one COUNT: a page may hold a part of it.
  function count(type, sum, continuation, then) {
    var query = {
      query: 'SELECT VALUE COUNT(1) FROM c WHERE c.postId = @postId AND c.type = @type',
      parameters: [{ name: '@postId', value: postId }, { name: '@type', value: type }]
    };
    var options = continuation ? { continuation: continuation } : {};
    must(collection.queryDocuments(self, query, options, function (err, rows, info) {
      if (err) throw err;
      for (var i = 0; i < rows.length; i++) sum += rows[i];
      if (info && info.continuation) return count(type, sum, info.continuation, then);
      then(sum);
    }));
  }

  function countLikes(comments) {
    count('like', 0, null, function (likes) { setCounters(comments, likes); });
  }

  function setCounters(comments, likes) {
    must(collection.readDocument(collection.getAltLink() + '/docs/' + postId, function (err, post) {
      if (err && err.number !== 404) throw err;
      if (err || (post.commentCount === comments && post.likeCount === likes)) {
        return getContext().getResponse().setBody(taken);
      }
      post.commentCount = comments;
      post.likeCount = likes;
      must(collection.replaceDocument(post._self, post, { etag: post._etag }, function (err) {
        if (err) throw err;
        getContext().getResponse().setBody(taken);
      }));
    }));
  }

  next();
}
